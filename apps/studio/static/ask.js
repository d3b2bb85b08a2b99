// <studio-ask>: a video, the camera or the running world is watched, and questions about it are answered.

import { bytes, button, field, make } from "./dom.js";
import { Camera } from "./camera.js";
import { clock, Questions } from "./questions.js";
import { Receipts } from "./receipts.js";
import { Stage } from "./stage.js";
import { Tab } from "./tab.js";
import { upload } from "./upload.js";

const PRESETS = [
  "where is the hero now ?",
  "which way does the hero walk now ?",
  "which coat does the hero wear now ?",
  "which biome came first ?",
  "how many biomes were visited ?",
  "was it night at any time ?",
];
const PACES = [
  ["played", "as it plays"],
  ["fast", "as fast as it can be looked at"],
];

class StudioAsk extends Tab {
  name = "ask";

  build() {
    this.stage = new Stage();
    this.camera = new Camera((words) => this.receipts.say(words, "wrong"));
    this.stage.row.append(this.camera.video);
    this.status = make("div", { className: "s-readout", "aria-label": "Numbers of the memory" });
    this.questions = new Questions();
    this.receipts = new Receipts();
    this.file = make("input", { type: "file", accept: "video/*,.mkv,.avi,.gif" });
    this.file.addEventListener("change", () => this.#guard(() => this.#watchFile()));
    this.pace = make("select", {}, ...PACES.map(([value, label]) => make("option", { value }, label)));
    this.memory = make("select", {});
    this.budget = make("input", { type: "number", min: 1 });
    this.question = make("input", { value: PRESETS[0] });
    this.question.addEventListener("keydown", (event) => event.key === "Enter" && this.#ask());
    this.at = make("input", { type: "number", min: 0, step: 0.5, placeholder: "now" });
    this.#buttons();
    this.#layout();
  }

  #buttons() {
    this.filed = button("Watch the file", () => this.#guard(() => this.#watchFile()));
    this.filming = button("Watch the camera", () => this.#guard(() => this.#watchCamera()));
    this.worlds = [
      ["world", "Watch the running world"],
      ["video", "Watch the running video"],
    ].map(([tab, label]) => {
      const one = button(label, () => this.#guard(() => this.#watchWorld(tab)));
      one.dataset.watch = tab;
      return one;
    });
    this.go = button("Ask", () => this.#ask(), "Enter");
    this.go.classList.add("primary");
    this.hold = button("Pause", () => this.#pause(!this.paused));
    this.end = button("Stop", () => this.send({ do: "stop" }));
    this.sources = [this.file, this.filed, this.filming, ...this.worlds];
    this.whileWatching = [this.go, this.hold, this.end];
    for (const one of [...this.sources, ...this.whileWatching]) one.disabled = true;
  }

  #layout() {
    const presets = PRESETS.map((words) =>
      make("button", { type: "button", className: "s-preset", onclick: () => this.#preset(words) }, words),
    );
    const fields = [
      field("memory", this.memory),
      field("tokens that each layer keeps", this.budget),
      field("a file is watched", this.pace),
    ];
    const panel = make(
      "div",
      { className: "s-panel" },
      field("a video file", this.file),
      make("div", { className: "s-buttons" }, this.filed, this.filming, ...this.worlds),
      make("div", { className: "s-fields" }, ...fields),
      make("div", { className: "s-fields" }, field("question", this.question), field("at second", this.at)),
      make("div", { className: "s-presets" }, ...presets),
      make("div", { className: "s-buttons" }, this.go, this.hold, this.end, this.again),
    );
    const left = make("div", { className: "s-left" }, this.stage.element, this.status);
    const right = make("div", { className: "s-right" }, panel, this.questions.element, this.receipts.element);
    this.append(make("div", { className: "s-split" }, left, right));
  }

  /** A tab that is left stands still, unless it watches a world that is played in another tab. */
  seen(visible) {
    super.seen(visible);
    if (this.running && !this.paused && !this.world) this.send({ do: visible ? "resume" : "pause" });
  }

  leave() {
    this.#unwatch();
    super.leave();
  }

  /** What goes wrong while something is opened becomes a sentence. */
  async #guard(work) {
    try {
      await work();
    } catch (error) {
      this.receipts.say(error.message, "wrong");
    }
  }

  async #watchFile() {
    const [file] = this.file.files;
    if (!file) throw new Error("No file was chosen yet.");
    this.stage.say(`Bringing ${file.name}…`);
    const name = await upload(this.model, file).finally(() => this.stage.say(""));
    this.#watch({ source: "upload", name, pace: this.pace.value });
  }

  async #watchCamera() {
    this.#unwatch();
    await this.camera.open();
    this.#watch({ source: "camera" });
  }

  #watchWorld(tab) {
    const world = document.querySelector(`studio-world[tab=${tab}]`);
    if (!world?.running) throw new Error(`No ${tab} runs yet; start one in its tab, then watch it here.`);
    this.#watch({ source: "world", name: world.model.session });
    this.wanted = world;
  }

  #watch(words) {
    this.send({ do: "watch", memory: this.memory.value, ...words, ...this.#budget() });
  }

  #budget() {
    return this.budget.value ? { budget: Number(this.budget.value) } : {};
  }

  #unwatch() {
    this.camera.stop();
    this.world?.watch(null);
    this.world = undefined;
  }

  #preset(words) {
    this.question.value = words;
    this.#ask();
  }

  #ask() {
    if (!this.running) return this.receipts.say("Choose something to watch first.", "wrong");
    const words = { do: "ask", question: this.question.value };
    if (this.at.value) words.at = Number(this.at.value);
    this.send(words);
  }

  #pause(paused) {
    this.paused = paused;
    this.hold.firstChild.textContent = paused ? "Go on" : "Pause";
    this.send({ do: paused ? "pause" : "resume" });
  }

  picture(head, bitmaps) {
    if (!this.running) return; // it was on its way when the session was stopped
    this.dataset.time = head.time;
    this.stage.say("");
    if (!this.world && !this.camera.running) this.stage.draw(bitmaps);
  }

  heard(note) {
    return {
      model: () => this.#modelled(note),
      watching: () => this.#watching(note),
      seen: () => this.#numbers(note),
      asked: () => this.questions.asked(note),
      piece: () => this.questions.piece(note),
      answered: () => this.questions.answered(note),
      ended: () => this.#over(note),
      stopped: () => this.#stopped(),
      refused: () => this.#refused(note),
    };
  }

  #modelled(note) {
    this.model = note;
    if (note.state === "failed") return this.stage.say(note.trouble);
    if (note.state !== "ready") return this.stage.say(`${note.model} is loading…`);
    if (!this.running) this.stage.say("Bring a video, or watch the camera or a running world; then ask.");
    this.memory.replaceChildren(...note.memories.map((name) => make("option", {}, name)));
    this.budget.placeholder = note.budget;
    for (const one of this.sources) one.disabled = false;
  }

  #watching(note) {
    if (note.source !== "camera") this.#unwatch();
    this.running = true;
    this.questions.clear();
    this.#pause(false);
    this.stage.draw([]);
    this.stage.say("");
    if (note.source === "camera") this.camera.start(this.model.session, note.fps);
    if (note.source === "world") {
      this.world = this.wanted;
      this.world.watch((bitmaps) => this.stage.draw(bitmaps));
    }
    for (const one of this.whileWatching) one.disabled = false;
    const kept = note.budget == null ? "everything" : `${note.budget} tokens a layer`;
    this.receipts.say(`Watching ${note.source}: memory ${note.memory}, ${kept}, ${bytes(note.cache_bytes)}.`);
  }

  #numbers(note) {
    const kept = note.budget == null ? "" : ` (keeps ${note.budget})`;
    const length = note.duration == null ? "" : ` of ${clock(note.duration)}`;
    const parts = [
      `seen ${clock(note.time)}${length}`,
      `${note.frames} frames`,
      `${note.tokens} tokens${kept}`,
      `cache ${bytes(note.cache_bytes)}`,
      `${note.evictions} evictions`,
      note.first_ms == null ? "" : `first word ${note.first_ms} ms`,
      `kernel ${note.kernel}`,
      note.dropped ? `${note.dropped} not looked at` : "",
    ].filter(Boolean);
    this.status.replaceChildren(...parts.map((words) => make("span", {}, words)));
  }

  #over(note) {
    this.#unwatch();
    this.receipts.say(note.why || `It ended at ${clock(note.time)}; what was seen can still be asked about.`);
  }

  #refused(note) {
    if (note.do === "watch") this.camera.stop();
    if (!this.questions.refused(note)) this.receipts.say(note.why, "wrong");
  }

  #stopped() {
    if (!this.camera.video.srcObject || this.camera.running) this.#unwatch();
    this.running = false;
    for (const one of this.whileWatching) one.disabled = true;
    this.stage.say("Stopped; its pages are free.");
  }

  ended(why) {
    this.#unwatch();
    this.#stopped();
    for (const one of this.sources) one.disabled = true;
    super.ended(why);
  }
}

customElements.define("studio-ask", StudioAsk);
