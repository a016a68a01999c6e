"use strict";
(() => {
  const said = document.getElementById("said");

  function sortBy(header) {
    const table = header.closest("table");
    const body = table.tBodies[0];
    const place = header.cellIndex;
    const before = header.getAttribute("aria-sort");
    const numeric = header.classList.contains("num");
    const next = before === "none" ? (numeric ? "descending" : "ascending")
      : before === "ascending" ? "descending" : "ascending";
    const sign = next === "ascending" ? 1 : -1;
    const key = (row) => row.cells[place].dataset.order;
    const rows = [...body.rows];
    rows.sort((one, two) => {
      const a = key(one), b = key(two);
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
    });
    body.append(...rows);
    for (const other of header.parentElement.cells) other.setAttribute("aria-sort", "none");
    header.setAttribute("aria-sort", next);
    said.textContent = `${table.caption.textContent}: sorted by ${header.textContent}, ${next}`;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("thead button");
    if (button) sortBy(button.closest("th"));
  });

  const choices = document.querySelectorAll("input[name=theme]");
  let kept = null;
  try { kept = localStorage.getItem("bertvision-theme"); } catch { /* a page from a file may keep nothing */ }
  for (const choice of choices) {
    if (choice.value === kept) choice.checked = true;
    choice.addEventListener("change", () => {
      try { localStorage.setItem("bertvision-theme", choice.value); } catch { /* as above */ }
    });
  }

  addEventListener("beforeprint", () => {
    for (const one of document.querySelectorAll("details")) one.open = true;
  });
})();
