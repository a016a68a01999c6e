// The page: sends texts to /v1/answer, /v1/classify, /v1/score and /v1/layers, and shows the replies; text never becomes markup.
"use strict";

const at = (id) => document.getElementById(id);
const NOTHING = "No answer in this text";
const ROUTES = { spans: "/v1/answer", labels: "/v1/classify", tags: "/v1/classify", scores: "/v1/score" };
let packs = [];
let newest = 0; // number of the last question; replies to earlier ones are dropped
let shown = null; // the question whose answer is shown, with its text and pack
let explained = null; // the question whose layers are shown or requested

function make(name, className, text) {
  const element = document.createElement(name);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value.toFixed(value > 99.9 || value < 10 ? 1 : 0)} %`;
}

function show(id, visible) {
  at(id).hidden = !visible;
}

async function call(path, body) {
  const headers = {};
  if (at("token").value) headers.Authorization = `Bearer ${at("token").value}`;
  if (body) headers["Content-Type"] = "application/json";
  const reply = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body) });
  const content = await reply.json();
  if (reply.status === 401) show("access", true);
  if (!reply.ok) throw new Error(content.error.message);
  return content;
}

function describe(error) {
  if (error instanceof TypeError) return "The server cannot be reached.";
  return error.message.charAt(0).toUpperCase() + error.message.slice(1);
}

function complain(error) {
  at("problem").textContent = describe(error);
  show("problem", true);
  at("problem").scrollIntoView({ behavior: "smooth", block: "nearest" }); // on a phone it is below the form
}

// Places count code points, and JavaScript counts halves of them: the text is taken apart once.
function highlight(letters, main, others) {
  const marks = main.start === null ? [] : [{ ...main, main: true }];
  for (const one of others) {
    const free = marks.every((mark) => one.end <= mark.start || one.start >= mark.end);
    if (one.start !== null && free) marks.push(one);
  }
  marks.sort((one, other) => one.start - other.start);
  const place = at("place");
  place.replaceChildren();
  let end = 0;
  for (const mark of marks) {
    place.append(letters.slice(end, mark.start).join(""));
    const piece = make("mark", mark.main ? "" : "soft", letters.slice(mark.start, mark.end).join(""));
    if (mark.main) piece.id = "found";
    place.append(piece);
    end = mark.end;
  }
  place.append(letters.slice(end).join(""));
  const found = at("found");
  if (found) place.scrollTop = Math.max(0, found.offsetTop - place.offsetTop - place.clientHeight / 3);
}

function meter(bar, label, share) {
  at(bar).style.width = `${100 * share}%`;
  at(label).textContent = percent(share);
}

function row(what, share) {
  const bar = make("span", "meter");
  const inner = make("i");
  inner.style.width = `${100 * share}%`;
  bar.append(inner);
  return [make("span", "what", what), bar, make("b", "", percent(share))];
}

function likeliest(labels) {
  return [...labels].sort((one, other) => other.score - one.score);
}

// A label, tags or a score, as the reply and each of its heads give them.
function words(reply) {
  return reply.labels ? reply.chosen.join(", ") || "No label" : String(Number(reply.score.toPrecision(4)));
}

function showPrediction(reply) {
  at("chosen").textContent = words(reply);
  at("labels").replaceChildren(
    ...likeliest(reply.labels ?? []).map((label) => {
      const line = make("div", "row");
      line.append(...row(label.label, label.score));
      const item = make("li");
      item.append(line);
      return item;
    }),
  );
  show("labels", Boolean(reply.labels));
}

function showAnswer(reply, text) {
  const letters = Array.from(text);
  const silent = reply.answer === null;
  const answers = [reply, ...reply.alternatives].filter((one) => one.answer !== null);
  document.querySelector(".answer").classList.toggle("silent", silent);
  at("answer").textContent = silent ? NOTHING : reply.answer;
  meter("score-bar", "score", silent ? (answers.length ? answers[0].score : 0) : reply.score);
  at("score-bar").closest("div").querySelector("dt").textContent = silent ? "Best answer" : "This answer";
  meter("none-bar", "none", reply.no_answer);
  show("why", silent && answers.length > 0 && answers[0].score > reply.no_answer);
  highlight(letters, reply, reply.alternatives);
  const runners = at("runners");
  runners.replaceChildren();
  for (const one of reply.alternatives) {
    const button = make("button");
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.append(...row(one.answer, one.score));
    button.addEventListener("click", () => {
      const pressed = button.getAttribute("aria-pressed") === "true";
      for (const other of runners.querySelectorAll("button")) other.setAttribute("aria-pressed", "false");
      button.setAttribute("aria-pressed", String(!pressed));
      const main = pressed ? reply : one;
      highlight(letters, main, answers.filter((other) => other !== main));
    });
    const item = make("li");
    item.append(button);
    runners.append(item);
  }
  show("others", reply.alternatives.length > 0);
}

function headWords(head) {
  if (head.no_answer !== undefined) {
    return [head.answer === null ? "No answer" : head.answer, `${percent(head.score)} · no answer ${percent(head.no_answer)}`];
  }
  const most = likeliest(head.labels ?? []).slice(0, 3);
  return [words(head), most.map((label) => `${label.label} ${percent(label.score)}`).join(" · ")];
}

function showHeads(replies) {
  const several = replies.length > 1;
  const heads = replies.flatMap((reply) => reply.heads.map((head) => ({ ...head, pack: reply.pack })));
  at("heads").replaceChildren(
    ...heads.map((head) => {
      const card = make("div", head.answer === null ? "head silent" : "head");
      const [says, sure] = headWords(head);
      const title = several ? `${head.pack} · ${head.head}` : head.head;
      card.append(make("h3", "", title), make("p", "", says), make("span", "quiet", sure));
      return card;
    }),
  );
  show("side", heads.length > 1);
}

function showLayers(reply) {
  at("layers").replaceChildren(
    ...reply.heads.map((head) => {
      const chart = make("div", "chart");
      const title = make("h3", "", head.head);
      title.append(make("span", "", ` for “${head.explains === null ? "no answer" : head.explains}”`));
      const bars = make("div", "bars");
      const most = Math.max(...head.layers.map((layer) => layer.share));
      bars.setAttribute("role", "img");
      bars.setAttribute("aria-label", head.layers.map((one) => `layer ${one.layer}: ${percent(one.share)}`).join(", "));
      for (const layer of head.layers) {
        const top = layer.share === most;
        const bar = make("div", `bar${top ? " top" : ""}${layer.contribution < 0 ? " minus" : ""}`);
        const block = make("span");
        block.style.height = `${most ? (84 * layer.share) / most : 0}%`; // room for the number above
        if (top) block.append(make("em", "", percent(layer.share)));
        bar.title = `layer ${layer.layer}: ${percent(layer.share)}${layer.contribution < 0 ? ", counts against it" : ""}`;
        bar.append(block, make("small", "", String(layer.layer)));
        bars.append(bar);
      }
      chart.append(title, bars);
      return chart;
    }),
  );
}

function noteLayers(note) {
  at("layers-problem").textContent = note;
  show("layers-problem", note !== "");
  show("layers-note", note === "");
}

// Only where they are looked at, since they take longer than the answer; exported packs cannot tell of layers.
async function askLayers() {
  const question = shown;
  if (!at("depth").open || question === explained) return;
  explained = question;
  at("layers").replaceChildren();
  noteLayers("Computing…");
  try {
    const reply = await call("/v1/layers", question);
    if (question !== shown) return;
    showLayers(reply);
    noteLayers("");
  } catch (error) {
    if (question !== shown) return;
    noteLayers(describe(error));
    explained = null; // so that opening it again asks again
  }
}

// What a request about the texts of the form holds; of a pack that reads single texts, the large field has it.
function request(pack, first, text) {
  if (pack.kind === "spans") return { question: first, context: text, pack: pack.name };
  return pack.pairs ? { text: first, text_pair: text, pack: pack.name } : { text, pack: pack.name };
}

async function ask(event) {
  event?.preventDefault();
  const first = at("question").value;
  const text = at("text").value;
  if ((at("question").required && !first.trim()) || !text.trim()) return;
  const number = ++newest;
  show("problem", false);
  at("ask").setAttribute("aria-busy", "true");
  try {
    if (!packs.length) await open();
    const pack = chosenPack();
    const spans = pack.kind === "spans";
    const asked = spans ? packs.filter((one) => one.kind === "spans") : [pack];
    const more = spans ? { top: 5 } : {};
    const all = asked.map((one) => call(ROUTES[one.kind], { ...request(one, first, text), ...more }));
    const replies = await Promise.all(all);
    if (number !== newest) return;
    const reply = replies.find((reply) => reply.pack === pack.name);
    show("answered", spans);
    show("in-text", spans);
    show("others", false);
    show("predicted", !spans);
    if (spans) showAnswer(reply, text);
    else showPrediction(reply);
    showHeads(replies);
    show("empty", false);
    show("said", true);
    if (matchMedia("(max-width: 57.9rem)").matches) at("said").scrollIntoView({ behavior: "smooth", block: "start" });
    shown = request(pack, first, text);
    askLayers();
  } catch (error) {
    if (number !== newest) return;
    show("said", false); // it answers another question
    complain(error);
  } finally {
    if (number === newest) at("ask").removeAttribute("aria-busy");
  }
}

function chosenPack() {
  return packs.find((pack) => pack.name === at("pack").value);
}

// What the form asks for is what the chosen pack reads: a question and a text, two texts, or one.
function fit() {
  const { kind, pairs } = chosenPack();
  const spans = kind === "spans";
  const two = spans || pairs;
  show("question-label", two);
  show("question", two);
  show("enter", two);
  at("question").required = two;
  at("first").classList.toggle("alone", !two);
  at("question-label").textContent = spans ? "Question" : "First text";
  at("question").placeholder = spans ? "What do you want to know?" : "The first of the two texts";
  at("text-label").textContent = spans || !two ? "Text" : "Second text";
  at("text").placeholder = spans ? "Paste a text here, or choose an example below." : "Paste a text here.";
  at("ask").textContent = spans ? "Ask" : "Predict";
  at("expected").textContent = spans
    ? "The answer will appear here with its probability, marked in the text."
    : "The prediction will appear here.";
  show("example-texts", spans);
}

async function open() {
  const reply = await call("/v1/packs");
  const spans = reply.packs.filter((pack) => pack.kind === "spans");
  packs = [...spans, ...reply.packs.filter((pack) => pack.kind !== "spans")];
  at("pack").replaceChildren(...packs.map((pack) => new Option(`${pack.name} (${pack.heads.join(", ")})`, pack.name)));
  show("packs", packs.length > 1);
  fit();
  const encoders = [...new Set(packs.map((pack) => pack.encoder))];
  at("served").textContent = `${packs.length > 1 ? "Packs" : "Pack"} ${packs.map((pack) => pack.name).join(", ")} · encoder ${encoders.join(", ")}`;
  const most = reply.text_characters;
  const count = () => {
    const length = Array.from(at("text").value).length;
    at("count").textContent = `${length.toLocaleString("en")} of ${most.toLocaleString("en")} characters`;
  };
  at("text").addEventListener("input", count);
  count();
}

async function showExamples() {
  const examples = await (await fetch("/examples.json")).json();
  const choose = (example, button) => {
    for (const other of at("examples").children) other.setAttribute("aria-pressed", String(other === button));
    at("text").value = example.text;
    at("text").dispatchEvent(new Event("input"));
    at("questions").replaceChildren(
      ...example.questions.map((question) => {
        const one = make("button", "", question);
        one.type = "button";
        one.addEventListener("click", () => {
          at("question").value = question;
          at("text").value = example.text;
          ask();
        });
        return one;
      }),
    );
  };
  for (const example of examples) {
    const button = make("button", "", example.title);
    button.type = "button";
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => choose(example, button));
    at("examples").append(button);
  }
}

at("form").addEventListener("submit", ask);
at("pack").addEventListener("change", fit);
at("token").addEventListener("change", () => { // only with it is known what the packs read
  if (!packs.length) open().then(() => show("problem", false)).catch(complain);
});
at("depth").addEventListener("toggle", askLayers);
at("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(event);
});
showExamples().catch(complain);
open().catch(complain);
