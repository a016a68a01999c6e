"""Write the table of speed records into the README, between its two marks."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- speed table: written by bench/table.py -->", "<!-- end of speed table -->"


def speed_table() -> str:
    """The records of results/ as Markdown."""
    rows = ["| what | against | times faster (range) | promised | on |", "|---|---|---|---|---|"]
    for path in sorted((ROOT / "results").glob("speed-*.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        for baseline, ratio in record["ratios"].items():
            rows.append(
                f"| [{record['what']}](results/{path.name}) | {baseline} | **{ratio['median']:.1f}** "
                f"({ratio['least']:.1f} to {ratio['most']:.1f}) | {record['target_ratio']:g} | {record['size']}, "
                f"{record['provenance']['cores']} cores |"
            )
    return "\n".join(rows)


def with_table(readme: str) -> str:
    """The README with the table as the records have it now."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{speed_table()}\n\n{END}{after}"


def main() -> None:
    """Rewrite the README."""
    readme = ROOT / "README.md"
    readme.write_text(with_table(readme.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
