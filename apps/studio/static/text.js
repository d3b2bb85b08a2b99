// <studio-text>: a document, questions to it with the document in the prompt, as an adapter, or not at all.

import { bytes, button, field, make } from "./dom.js";
import { linkButton, opened } from "./deep.js";
import { Receipts } from "./receipts.js";
import { speculation } from "./speculation.js";
import { Tab } from "./tab.js";

const DOCUMENTS = [
  "ada lives in the desert . ben carries a map . the friend of ada is a fox . cora sets out at night . ben wears a red coat .",
  "hugo walks north . iris has a house in the forest . there is a lantern in the bag of hugo . an owl follows iris .",
];
const QUESTIONS = ["what does ben carry ?", "where does ada live ?", "who is the friend of ada ?", "when does cora set out ?"];
const WAYS = [
  ["prompt", "with the document in the prompt"],
  ["adapter", "with the document as an adapter"],
  ["nothing", "without the document"],
];
const KEPT = 8; // answers on the page

class StudioText extends Tab {
  name = "text";

  build() {
    this.paper = make("textarea", { className: "s-prompt", rows: 4, value: opened("text", "document") || DOCUMENTS[0] });
    this.question = make("input", { value: opened("text", "prompt") || QUESTIONS[0] });
    this.question.addEventListener("keydown", (event) => event.key === "Enter" && this.#ask());
    this.way = make("select", {}, ...WAYS.map(([value, label]) => make("option", { value }, label)));
    this.samples = make("input", { type: "number", min: 1, max: 8, value: 1 });
    this.heat = make("input", { type: "number", min: 0, max: 4, step: 0.1, value: 0 });
    this.seed = make("input", { type: "number", min: 0, value: opened("text", "seed") || 0 });
    this.most = make("input", { type: "number", min: 1, max: 512, value: 24 });
    this.drafted = make("input", { type: "checkbox" });
    this.status = make("div", { className: "s-readout", role: "status" });
    this.lack = make("p", { className: "s-note" });
    this.answers = make("div", { className: "s-answers", "aria-live": "polite" });
    this.memory = make("div", { className: "s-bars", "aria-label": "Memory of the answers" });
    this.trees = make("div", { className: "s-trees", "aria-label": "What the draft proposed" });
    this.receipts = new Receipts();
    this.away = make("img", { hidden: true, alt: "" });
    this.go = button("Ask", () => this.#ask(), "Enter");
    this.go.classList.add("primary");
    this.read = button("Read it into an adapter", () => this.#read());
    this.go.disabled = this.read.disabled = true;
    this.share = linkButton("text", () => ({ prompt: this.question.value, document: this.paper.value, seed: this.seed.value }));
    this.#layout();
  }

  #layout() {
    const preset = (words, take) =>
      make("button", { type: "button", className: "s-preset", onclick: () => take(words) }, words);
    const documents = DOCUMENTS.map((words, number) => {
      const one = preset(`document ${number + 1}`, () => (this.paper.value = words));
      one.title = words;
      return one;
    });
    const questions = QUESTIONS.map((words) => preset(words, () => ((this.question.value = words), this.#ask())));
    const left = make(
      "div",
      { className: "s-left s-panel" },
      field("document", this.paper),
      make("div", { className: "s-buttons" }, ...documents, this.read),
      field("question", this.question),
      make("div", { className: "s-presets" }, ...questions),
      make("div", { className: "s-fields" }, field("asked", this.way), field("samples", this.samples)),
      make("div", { className: "s-buttons" }, this.go, button("Stop and free its pages", () => this.send({ do: "stop" })), this.share),
      this.answers,
    );
    const right = make(
      "div",
      { className: "s-right" },
      make(
        "div",
        { className: "s-fields" },
        field("temperature", this.heat),
        field("seed", this.seed),
        field("tokens at most", this.most),
        field("a draft proposes", this.drafted),
      ),
      this.lack,
      this.status,
      make("h3", {}, "What an answer remembers"),
      this.memory,
      make("h3", {}, "Speculation"),
      this.trees,
      this.again,
      this.receipts.element,
      this.away,
    );
    this.append(make("div", { className: "s-split" }, left, right));
  }

  picture() {} // it has none

  stream(url) {
    if (url) this.away.src = url;
    else this.away.removeAttribute("src");
  }

  #read() {
    this.send({ do: "read", document: this.paper.value });
  }

  #ask() {
    const words = {
      do: "write",
      question: this.question.value,
      way: this.way.value,
      samples: Number(this.samples.value) || 1,
      temperature: Number(this.heat.value) || 0,
      seed: Number(this.seed.value) || 0,
      max_tokens: Number(this.most.value) || 24,
      drafted: this.drafted.checked,
    };
    if (words.samples > 1 && !words.temperature) this.heat.value = words.temperature = 0.8; // or they are one text
    if (words.way === "prompt") words.document = this.paper.value;
    this.asked = { question: words.question, way: words.way };
    this.send(words);
  }

  heard(note) {
    return {
      model: () => this.#modelled(note),
      started: () => this.#began(note),
      writing: () => this.#told(note),
      written: () => this.#done(note),
      "was read": () => this.#known(note),
      stopped: () => (this.status.textContent = "Stopped; its pages are free."),
    };
  }

  #modelled(note) {
    const ready = note.state === "ready";
    this.status.textContent = ready ? `${note.model} is ready: up to ${note.longest} tokens.` : `${note.model}: ${note.state}`;
    if (note.state === "failed") this.lack.textContent = note.trouble;
    if (!ready) return;
    this.go.disabled = false;
    this.read.disabled = !note.documents;
    this.drafted.disabled = !note.draft;
    const lacks = [];
    if (!note.documents) lacks.push(`No hypernetwork (${note.model}-documents) lies beside the model, so a document cannot become an adapter.`);
    if (!note.draft) lacks.push(`No draft model (${note.model}-draft) lies beside it, so nothing is proposed.`);
    this.lack.textContent = lacks.join(" ");
    this.way.options[1].disabled = !note.documents;
  }

  #began(note) {
    const title = make("h4", {}, `${this.asked.question} `, make("small", {}, WAYS.find(([way]) => way === note.way)[1]));
    this.card = make("section", { className: "s-card" }, title, make("div", {}));
    this.card.dataset.number = note.number;
    this.answers.prepend(this.card);
    while (this.answers.children.length > KEPT) this.answers.lastChild.remove();
    this.way_ = note.way;
  }

  #told(note) {
    if (Number(this.card?.dataset.number) !== note.number) return;
    const texts = note.texts.map((text, number) => make("p", {}, `${note.texts.length > 1 ? `${number + 1}. ` : ""}${text || "…"}`));
    this.card.lastChild.replaceChildren(...texts);
    if (note.steps.length) this.trees.replaceChildren(...note.steps.map(speculation));
  }

  #done(note) {
    this.#told(note);
    this.card.classList.add("done");
    const new_ = note.tokens.reduce((sum, count) => sum + count, 0);
    this.status.textContent =
      `${note.prompt_tokens} tokens of a prompt (${note.shared_tokens} known already) · ${new_} new · ` +
      `first after ${note.first_ms} ms · ${note.ms} ms in all`;
    const adapter = note.adapter_bytes ? ` + adapter ${bytes(note.adapter_bytes)}` : "";
    const label = `${this.asked.question} · ${this.way_}`;
    const shared = note.alone_bytes > note.cache_bytes ? `, ${bytes(note.alone_bytes)} if nothing were shared` : "";
    this.#bar(label, note.cache_bytes + note.adapter_bytes, `pages ${bytes(note.cache_bytes)}${shared}${adapter}`);
    const share = note.proposed ? `${note.accepted} of ${note.proposed} accepted (${Math.round((100 * note.accepted) / note.proposed)} %)` : "";
    this.trees.prepend(make("p", { className: "s-note" }, share || "Tick “a draft proposes” to see what a smaller model guesses."));
    if (!note.proposed) this.trees.replaceChildren(this.trees.firstChild);
  }

  #known(note) {
    this.way.value = "adapter";
    this.receipts.say(
      `${note.tokens} tokens were read in ${note.ms} ms: an adapter of ${bytes(note.adapter_bytes)}, whatever the length; ` +
        `keys and values would be ${bytes(note.cache_bytes)}.`,
    );
  }

  /** A line as long as its bytes, beside those before. */
  #bar(label, size, words) {
    const line = make("div", { className: "s-bar" }, make("span", {}, `${label}: ${words}`), make("i", {}));
    line.dataset.size = size;
    this.memory.prepend(line);
    while (this.memory.children.length > KEPT) this.memory.lastChild.remove();
    const most = Math.max(...[...this.memory.children].map((one) => Number(one.dataset.size)));
    for (const one of this.memory.children) one.lastChild.style.width = `${(100 * one.dataset.size) / most}%`;
  }
}

customElements.define("studio-text", StudioText);
