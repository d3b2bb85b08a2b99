// <studio-world tab="world|video">: a stream that obeys keys and words.

import { make } from "./dom.js";
import { Keypad } from "./keypad.js";
import { Keys, typing } from "./keys.js";
import { Look } from "./look.js";
import { Readout } from "./readout.js";
import { Receipts } from "./receipts.js";
import { recorded } from "./recordings.js";
import { Stage } from "./stage.js";
import { Tab } from "./tab.js";
import { WorldPanel } from "./world_panel.js";

const SHORTCUTS = { Space: "pause", KeyZ: "undo", KeyR: "reset", KeyP: "record", KeyF: "fork" };

class StudioWorld extends Tab {
  connectedCallback() {
    super.connectedCallback();
    document.addEventListener("keydown", (event) => this.#shortcut(event), { signal: this.gone.signal });
    this.keys = this.pad.keys = new Keys(
      (words) => this.send(words),
      () => (this.visible || this.watched) && this.running,
      (held) => this.pad.held(held),
    );
    this.keys.obeyed = new Set(this.model?.keys ?? []);
    this.look = new Look(this.stage.element, this.keys, (words) => this.send(words));
  }

  disconnectedCallback() {
    this.look.close();
    this.keys.close();
    super.disconnectedCallback();
  }

  build() {
    this.name = this.getAttribute("tab");
    this.stage = new Stage();
    this.readout = new Readout();
    this.receipts = new Receipts();
    this.pad = new Keypad(undefined);
    this.panel = new WorldPanel(this.name, (words) => this.#ask(words));
    const left = make("div", { className: "s-left" }, this.stage.element, this.readout.element, this.pad.element);
    const right = make("div", { className: "s-right" }, this.panel.element, this.again, this.receipts.element);
    this.append(make("div", { className: "s-split" }, left, right));
  }

  /** The first look opens the session; a tab that is left stands still. */
  seen(visible) {
    this.visible = visible;
    super.seen(visible);
    if (!visible) this.keys.releaseAll();
    if (this.running && !this.panel.paused && !this.watched) this.send({ do: visible ? "resume" : "pause" });
  }

  /** Another tab looks on: the stream goes on, and obeys keys, while this tab is hidden. null ends that. */
  watch(draw) {
    this.watched = draw;
    if (this.running && !this.panel.paused) this.send({ do: draw || this.visible ? "resume" : "pause" });
  }

  #ask(words) {
    if (words.do === "pause" && this.panel.paused) words = { do: "resume" };
    if (words.do === "start") this.stage.say("Starting…");
    if (words.do === "pause" || words.do === "resume") this.panel.pause(words.do === "pause");
    this.send(words);
  }

  picture(head, bitmaps) {
    this.stage.say("");
    this.stage.draw(bitmaps);
    this.watched?.(bitmaps);
    this.pad.applied(head.applied);
    this.receipts.seen(head.chunk);
    this.dataset.frame = head.frame;
    this.dataset.chunk = head.chunk;
  }

  heard(note) {
    return {
      model: () => this.#modelled(note),
      started: () => this.#started(note),
      readout: () => this.#numbers(note),
      receipt: () => this.receipts.add({ ...note, branches: this.panel.branches }),
      forked: () => this.#branched(2, `Forked at chunk ${note.chunk}: two worlds, one clock.`),
      kept: () => this.#branched(1, `Branch ${note.branch + 1} was kept: “${note.prompt}”`),
      "was reset": () => this.#branched(1, `Begun again with seed ${note.seed}.`),
      undone: () => this.receipts.say(`Back at chunk ${note.chunk}; ${note.undoable} more can be undone.`),
      recording: () => this.panel.recording(true),
      recorded: () => this.#recorded(note),
      stopped: () => this.#stopped(),
    };
  }

  #modelled(note) {
    this.model = note;
    const loading = { waiting: `${note.model} waits for its turn to load…`, loading: `${note.model} is loading…` };
    if (note.state === "failed") this.stage.say(note.trouble);
    else if (note.state !== "ready") this.stage.say(loading[note.state]);
    else if (!this.running) this.stage.say("Write a prompt and press Start.");
    if (note.state !== "ready") return;
    this.keys.obeyed = new Set(note.keys);
    this.look.mouse = note.mouse;
    this.pad.show(note.keys);
    this.panel.ready(note);
  }

  #started(note) {
    this.running = true;
    this.panel.started(note);
    this.readout.show({ ...note, shown_ms: null, input_ms: null });
    this.receipts.say(`Started with seed ${note.seed}: “${note.prompt}”`);
    this.stage.element.focus({ preventScroll: true });
  }

  #numbers(note) {
    this.readout.show(note);
    this.panel.numbers(note);
  }

  #branched(count, words) {
    this.panel.branched(count);
    this.receipts.say(words);
  }

  #recorded(note) {
    const links = note.files.map((name) =>
      make("a", { href: `/recordings/${note.session}/${name}`, download: name }, name),
    );
    this.panel.recording(false);
    recorded({ name: note.files[0], session: note.session });
    this.receipts.say(`${note.frames} frames: `).append(...links.flatMap((link) => [link, " "]));
  }

  #stopped() {
    this.running = false;
    this.panel.stopped();
    this.pad.applied([]);
    this.stage.say("Stopped; its pages are free. Press Start for another.");
  }

  ended(why) {
    this.running = false;
    this.panel.stopped();
    super.ended(why);
  }

  #shortcut(event) {
    if (!this.visible || typing(event) || event.repeat || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.code === "Slash") {
      event.preventDefault();
      this.panel.focusPrompt();
    }
    const order = SHORTCUTS[event.code];
    if (!order || !this.running || this.keys.obeyed.has(event.code)) return;
    event.preventDefault();
    if (order === "reset" && event.shiftKey) this.panel.start({ fresh: true });
    else this.#ask({ do: order });
  }
}

customElements.define("studio-world", StudioWorld);
