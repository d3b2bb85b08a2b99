// <studio-replay>: a recording is made again from its log, and any place of it can be gone to.

import { button, field, make } from "./dom.js";
import { Keypad } from "./keypad.js";
import { Readout } from "./readout.js";
import { Receipts } from "./receipts.js";
import { onRecorded } from "./recordings.js";
import { Stage } from "./stage.js";
import { Tab } from "./tab.js";
import { Timeline } from "./timeline.js";
import { upload } from "./upload.js";

const SPEEDS = [0.25, 0.5, 1, 2, 4, 16];
const NO_KEYS = { press() {}, release() {} }; // the keys show what the recording held

class StudioReplay extends Tab {
  name = "replay";

  connectedCallback() {
    super.connectedCallback();
    this.recordings.replaceChildren();
    onRecorded((one) => this.#offer(one));
    document.addEventListener("keydown", (event) => this.#key(event), { signal: this.gone.signal });
  }

  build() {
    this.stage = new Stage();
    this.readout = new Readout();
    this.timeline = new Timeline((chunk) => this.send({ do: "seek", chunk }));
    this.pad = new Keypad(NO_KEYS);
    this.verdict = make("p", { className: "s-note", role: "status" });
    this.receipts = new Receipts();
    this.file = make("input", { type: "file", accept: ".mp4,.json,video/mp4,application/json" });
    this.file.addEventListener("change", () => this.#openFile());
    this.recordings = make("div", { className: "s-presets" });
    this.speed = make("select", {}, ...SPEEDS.map((rate) => make("option", { value: rate }, `${rate}×`)));
    this.speed.value = 1;
    this.speed.addEventListener("change", () => this.send({ do: "speed", rate: Number(this.speed.value) }));
    this.hold = button("Pause", () => this.#pause(!this.paused), "Space");
    this.start = button("From the beginning", () => this.#begin());
    this.end = button("Stop", () => this.send({ do: "stop" }));
    this.whileOpen = [this.hold, this.start, this.speed, this.timeline.handle, this.end];
    for (const one of [this.file, ...this.whileOpen]) one.disabled = true;
    const panel = make(
      "div",
      { className: "s-panel" },
      field("an mp4 or .json that Record or streamgen world made", this.file),
      this.recordings,
      make("div", { className: "s-buttons" }, this.hold, this.start, this.end, this.again),
      make("div", { className: "s-fields" }, field("speed", this.speed)),
      this.verdict,
    );
    const shown = [this.stage.element, this.timeline.element, this.readout.element, this.pad.element];
    const left = make("div", { className: "s-left" }, ...shown);
    const right = make("div", { className: "s-right" }, panel, this.receipts.element);
    this.append(make("div", { className: "s-split" }, left, right));
  }

  seen(visible) {
    this.visible = visible;
    super.seen(visible);
    if (this.open && !this.paused) this.send({ do: visible ? "resume" : "pause" });
  }

  /** Another tab made a recording, which can be opened without a detour through a file. */
  #offer({ name, session }) {
    const open = () => this.send({ do: "open", name, session });
    const label = `${name.replace(".mp4", "")} of this page`;
    const offered = { type: "button", className: "s-preset", onclick: open, disabled: this.file.disabled };
    this.recordings.prepend(make("button", offered, label));
  }

  /** A recording can be opened only while the server listens. */
  #listening(yes) {
    for (const one of [this.file, ...this.recordings.children]) one.disabled = !yes;
  }

  async #openFile() {
    const [file] = this.file.files;
    if (!file) return;
    try {
      this.send({ do: "open", name: await upload(this.model, file) });
    } catch (error) {
      this.receipts.say(error.message, "wrong");
    }
  }

  picture(head, bitmaps) {
    if (!this.open) return; // it was on its way when the session was stopped
    this.stage.say("");
    this.stage.draw(bitmaps);
    this.pad.applied(head.applied);
    if (head.chunk >= 0) this.timeline.at(head.chunk);
    this.dataset.chunk = head.chunk;
    this.dataset.frame = head.frame;
  }

  heard(note) {
    return {
      model: () => this.#modelled(note),
      opened: () => this.#opened(note),
      readout: () => this.#numbers(note),
      ended: () => this.#pause(true, false),
      stopped: () => this.#stopped(),
    };
  }

  #modelled(note) {
    this.model = note;
    if (note.state === "failed") return this.stage.say(note.trouble);
    if (note.state !== "ready") return this.stage.say(`${note.model} is loading…`);
    if (!this.open) this.stage.say("Open a recording; one that this page makes is offered here by itself.");
    this.#listening(true);
  }

  #opened(note) {
    this.open = true;
    this.dataset.chunks = note.chunks;
    this.timeline.show(note.timeline, note.chunks);
    this.pad.show(note.keys);
    this.readout.show({ ...note, input_ms: null, shown_ms: null });
    this.speed.value = 1;
    this.#pause(false, false);
    for (const one of this.whileOpen) one.disabled = false;
    this.receipts.say(`Opened: “${note.prompt}”, seed ${note.seed}, ${note.chunks} chunks of ${note.model}.`);
    if (note.why) this.receipts.say(note.why, "warning");
  }

  #numbers(note) {
    this.readout.show(note);
    const going = note.goal == null ? "" : ` Going to chunk ${note.goal}: ${note.chunk} made…`;
    const recorded = `${note.equal} of ${note.compared} recorded chunks came out the same in every bit.`;
    this.verdict.textContent = `${note.compared ? recorded : "Nothing was recorded of this place."}${going}`;
    this.dataset.equal = note.equal;
    this.dataset.compared = note.compared;
  }

  #pause(paused, tell = true) {
    this.paused = paused;
    this.hold.firstChild.textContent = paused ? "Go on" : "Pause";
    if (tell) this.send({ do: paused ? "pause" : "resume" });
  }

  #begin() {
    this.send({ do: "seek", chunk: 0 });
    if (this.paused) this.#pause(false);
  }

  #key(event) {
    if (event.code !== "Space" || !this.visible || !this.open || event.target.closest("input, textarea, select, button"))
      return;
    event.preventDefault();
    this.#pause(!this.paused);
  }

  #stopped() {
    this.open = false;
    for (const one of this.whileOpen) one.disabled = true;
    this.pad.applied([]);
    this.stage.say("Stopped; its pages are free.");
  }

  ended(why) {
    this.#stopped();
    this.#listening(false);
    super.ended(why);
  }
}

customElements.define("studio-replay", StudioReplay);
