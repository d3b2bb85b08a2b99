// Everything beside the picture of a world: words, modes, seed, and what can be done to it.

import { linkButton, opened } from "./deep.js";
import { button, field, make } from "./dom.js";
import { upload } from "./upload.js";

const MODES = [
  ["last", "last: one block"],
  ["none", "none: text only"],
  ["window", "window: all of it"],
  ["cut", "cut: start afresh"],
];
const BROUGHT = "my picture"; // as a choice among the openings
const PROMPTS = [
  "a hero in a red coat walks east through snow at night",
  "a hero in a blue coat walks south through the desert at noon",
  "a hero in a green coat walks north through a meadow in the rain",
];

/** Tells `ask` what somebody wants, in the words of the server. */
export class WorldPanel {
  constructor(tab, ask) {
    this.ask = ask;
    this.tab = tab;
    this.branches = 1;
    this.paused = this.running = false;
    this.prompt = make("textarea", { className: "s-prompt", rows: 2, value: opened(tab, "prompt") || PROMPTS[tab === "video" ? 1 : 0] });
    this.prompt.setAttribute("aria-label", "Prompt");
    this.prompt.addEventListener("keydown", (event) => this.#enter(event));
    this.mode = make("select", {}, ...MODES.map(([value, label]) => make("option", { value }, label)));
    this.over = make("input", { type: "number", min: 1, max: 99, value: 1 });
    this.branch = make("select", {}, ...["both", "left", "right"].map((name) => make("option", {}, name)));
    this.seed = make("input", { type: "number", min: 0, placeholder: "drawn", value: opened(tab, "seed") });
    this.opening = make("select", {}, make("option", { value: "" }, "from words"));
    this.opening.addEventListener("change", () => this.#chosen());
    this.cards = make("div", { className: "s-cards", role: "group", "aria-label": "Pictures to begin from" });
    this.brought = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp" });
    this.brought.addEventListener("change", () => this.#bring());
    this.trouble = make("p", { className: "s-note", role: "alert" });
    this.#buttons();
    this.#layout();
    this.stopped();
  }

  /** The model is there. */
  ready(model) {
    if (this.model?.session === model.session) return; // said again because another model has loaded
    this.model = model;
    this.opening.replaceChildren(
      make("option", { value: "" }, "from words"),
      ...model.openings.map((name) => make("option", { value: name }, name)),
    );
    this.opening.value = model.openings.includes(opened(this.tab, "opening")) ? opened(this.tab, "opening") : "";
    this.opening.parentElement.hidden = !model.openings.length;
    this.cards.replaceChildren(...model.openings.map((name) => this.#card(name)));
    this.presets.replaceChildren(...PROMPTS.map((words, number) => this.#preset(words, number)));
    this.#chosen();
    this.begin.disabled = false;
  }

  start({ fresh = false } = {}) {
    const words = { do: "start", prompt: this.prompt.value };
    if (this.seed.value && !fresh) words.seed = Number(this.seed.value);
    if (this.opening.value === BROUGHT) words.upload = this.name;
    else if (this.opening.value) words.opening = this.opening.value;
    this.ask(words);
  }

  started(note) {
    this.running = true;
    this.seed.placeholder = `drawn: ${note.seed}`;
    this.pause(false);
    this.branched(1);
    for (const one of this.whileRunning) one.disabled = false;
  }

  stopped() {
    this.running = false;
    this.branched(1);
    this.recording(false);
    for (const one of this.whileRunning ?? []) one.disabled = true;
  }

  branched(count) {
    this.branches = count;
    this.fork.hidden = count > 1;
    this.keep.forEach((one) => (one.hidden = count < 2));
    this.branch.parentElement.hidden = count < 2;
  }

  pause(paused) {
    this.paused = paused;
    this.hold.firstChild.textContent = paused ? "Go on" : "Pause";
  }

  numbers(note) {
    this.back.disabled = !note.undoable;
    this.recording(note.recorded != null, note.recorded);
  }

  recording(on, frames = 0) {
    this.record.firstChild.textContent = on ? `Finish recording (${frames} frames)` : "Record";
    this.record.classList.toggle("on", on);
  }

  focusPrompt() {
    this.prompt.focus();
    this.prompt.select();
  }

  #say() {
    if (!this.running) return this.start();
    const words = { do: "prompt", text: this.prompt.value, over: Number(this.over.value) || 1 };
    if (words.over === 1) words.mode = this.mode.value;
    if (this.branches > 1 && this.branch.selectedIndex) words.branch = this.branch.selectedIndex - 1;
    this.ask(words);
    this.prompt.blur();
  }

  #enter(event) {
    if (event.key === "Escape") this.prompt.blur();
    if (event.key !== "Enter" || event.shiftKey) return;
    event.preventDefault();
    this.#say();
  }

  #buttons() {
    this.begin = button("Start", () => this.start());
    this.begin.classList.add("primary");
    this.begin.disabled = true;
    this.send = button("Change the prompt", () => this.#say(), "Enter");
    this.hold = button("Pause", () => this.ask({ do: "pause" }), "Space");
    this.back = button("Undo a chunk", () => this.ask({ do: "undo" }), "Z");
    this.fork = button("Fork", () => this.ask({ do: "fork" }), "F");
    this.keep = ["left", "right"].map((name, branch) =>
      button(`Keep ${name}`, () => this.ask({ do: "keep", branch })),
    );
    this.reset = button("Reset", () => this.ask({ do: "reset" }), "R");
    this.record = button("Record", () => this.ask({ do: "record" }), "P");
    this.end = button("Stop", () => this.ask({ do: "stop" }));
    this.whileRunning = [this.send, this.hold, this.back, this.fork, this.reset, this.record, this.end];
  }

  #layout() {
    this.presets = make("div", { className: this.tab === "video" ? "s-cards" : "s-presets" });
    this.share = linkButton(this.tab, () => ({
      prompt: this.prompt.value,
      seed: this.seed.value || this.seed.placeholder.replace(/\D/g, ""),
      opening: this.opening.value === BROUGHT ? "" : this.opening.value,
    }));
    this.element = make(
      "div",
      { className: "s-panel" },
      this.prompt,
      this.presets,
      this.cards,
      make("div", { className: "s-buttons" }, this.begin, this.send),
      make(
        "div",
        { className: "s-fields" },
        field("A new prompt renews", this.mode),
        field("blended over chunks", this.over),
        field("for", this.branch),
        field("seed", this.seed),
        field("begins", this.opening),
        field("or a picture", this.brought),
      ),
      make(
        "div",
        { className: "s-buttons" },
        ...[this.hold, this.back, this.fork, ...this.keep, this.reset, this.record, this.end, this.share],
      ),
      this.trouble,
    );
    this.opening.parentElement.hidden = true;
  }

  /** A prompt to begin with or to change to; with a picture where the bundled model made it. */
  #preset(words, number) {
    const take = () => {
      this.prompt.value = words;
      this.#say();
    };
    const picture = this.tab === "video" && this.model.model === "tiny-video";
    const image = picture ? [make("img", { src: `/studio/preset-tiny-video-${number}.jpg`, alt: "" })] : [];
    return make("button", { type: "button", className: "s-preset", onclick: take }, ...image, words);
  }

  /** A picture of the checkpoint: a world begins from it at once. */
  #card(name) {
    const image = make("img", { src: `/openings/${this.tab}/${encodeURIComponent(name)}.png`, alt: "", loading: "lazy" });
    const one = make("button", { type: "button", className: "s-preset" }, image, name);
    one.dataset.opening = name;
    one.onclick = () => {
      this.opening.value = name;
      this.#chosen();
      this.start();
    };
    return one;
  }

  #chosen() {
    for (const card of this.cards.children) card.setAttribute("aria-pressed", card.dataset.opening === this.opening.value);
  }

  /** A picture of the visitor goes to the server, and the next start begins from it. */
  async #bring() {
    const [file] = this.brought.files;
    if (!file) return;
    this.trouble.textContent = "";
    try {
      this.name = await upload(this.model, file);
    } catch (error) {
      this.trouble.textContent = error.message;
      return;
    }
    if (![...this.opening.options].some((one) => one.value === BROUGHT)) this.opening.append(make("option", {}, BROUGHT));
    this.opening.value = BROUGHT;
    this.#chosen();
    this.opening.parentElement.hidden = false;
  }
}
