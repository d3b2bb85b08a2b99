// Everything beside the picture of a world: words, modes, seed, and what can be done to it.

import { button, field, make } from "./dom.js";

const MODES = [
  ["last", "last block again"],
  ["none", "text only"],
  ["window", "whole memory again"],
  ["cut", "hard cut"],
];
const PROMPTS = [
  "a hero in a red coat walks east through snow at night",
  "a hero in a blue coat walks south through the desert at noon",
  "a hero in a green coat walks through a forest in the rain",
];

/** Tells `ask` what somebody wants, in the words of the server. */
export class WorldPanel {
  constructor(tab, ask) {
    this.ask = ask;
    this.branches = 1;
    this.paused = this.running = false;
    this.prompt = make("textarea", { className: "s-prompt", rows: 2, value: PROMPTS[tab === "video" ? 1 : 0] });
    this.prompt.setAttribute("aria-label", "Prompt");
    this.prompt.addEventListener("keydown", (event) => this.#enter(event));
    this.mode = make("select", {}, ...MODES.map(([value, label]) => make("option", { value }, label)));
    this.over = make("input", { type: "number", min: 1, max: 99, value: 1 });
    this.branch = make("select", {}, ...["both", "left", "right"].map((name) => make("option", {}, name)));
    this.seed = make("input", { type: "number", min: 0, placeholder: "drawn" });
    this.opening = make("select", {}, make("option", { value: "" }, "from words"));
    this.#buttons();
    this.#layout();
    this.stopped();
  }

  /** The model is there. */
  ready(model) {
    this.model = model.model;
    this.opening.replaceChildren(
      make("option", { value: "" }, "from words"),
      ...model.openings.map((name) => make("option", { value: name }, name)),
    );
    this.opening.parentElement.hidden = !model.openings.length;
    this.begin.disabled = false;
  }

  start({ fresh = false } = {}) {
    const words = { do: "start", prompt: this.prompt.value };
    if (this.seed.value && !fresh) words.seed = Number(this.seed.value);
    if (this.opening.value) words.opening = this.opening.value;
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
    const presets = PROMPTS.map((words) =>
      make("button", { type: "button", className: "s-preset", onclick: () => this.#preset(words) }, words),
    );
    this.element = make(
      "div",
      { className: "s-panel" },
      this.prompt,
      make("div", { className: "s-presets" }, ...presets),
      make("div", { className: "s-buttons" }, this.begin, this.send),
      make(
        "div",
        { className: "s-fields" },
        field("A new prompt renews", this.mode),
        field("blended over chunks", this.over),
        field("for", this.branch),
        field("seed", this.seed),
        field("begins", this.opening),
      ),
      make(
        "div",
        { className: "s-buttons" },
        ...[this.hold, this.back, this.fork, ...this.keep, this.reset, this.record, this.end],
      ),
    );
    this.opening.parentElement.hidden = true;
  }

  #preset(words) {
    this.prompt.value = words;
    this.#say();
  }
}
