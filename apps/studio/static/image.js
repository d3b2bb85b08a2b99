// <studio-image>: a grid of pictures that grow scale by scale.

import { button, field, make } from "./dom.js";
import { Link } from "./link.js";
import { Receipts } from "./receipts.js";

const MOST = 16;

class StudioImage extends HTMLElement {
  connectedCallback() {
    if (!this.grid) this.#build();
    this.watcher = new IntersectionObserver(([entry]) => entry.isIntersecting && !this.link && this.#connect());
    this.watcher.observe(this);
  }

  disconnectedCallback() {
    this.watcher.disconnect();
    this.link?.close();
    this.link = undefined;
  }

  #build() {
    this.grid = make("div", { className: "s-grid" });
    this.scales = make("div", { className: "s-scales", "aria-label": "The first picture after each scale" });
    this.status = make("div", { className: "s-readout", role: "status" });
    this.receipts = new Receipts();
    this.label = make("input", { placeholder: "no class", value: "" });
    this.label.setAttribute("list", "studio-classes");
    this.label.addEventListener("keydown", (event) => event.key === "Enter" && this.#make());
    this.classes = make("datalist", { id: "studio-classes" });
    this.picker = make("div", { className: "s-presets" });
    this.count = make("input", { type: "number", min: 1, max: MOST, value: 4 });
    this.seed = make("input", { type: "number", min: 0, placeholder: "drawn" });
    this.preset = make("select", {});
    this.cfg = make("input", { type: "number", min: 0, max: 10, step: 0.5, placeholder: "of the preset" });
    this.go = button("Make pictures", () => this.#make(), "Enter");
    this.go.classList.add("primary");
    this.go.disabled = true;
    this.again = button("Connect again", () => this.#connect());
    this.again.hidden = true;
    const panel = make(
      "div",
      { className: "s-panel" },
      field("class: a name or a number", this.label),
      this.classes,
      this.picker,
      make(
        "div",
        { className: "s-fields" },
        field("pictures, one seed each", this.count),
        field("first seed", this.seed),
        field("preset", this.preset),
        field("guidance", this.cfg),
      ),
      make("div", { className: "s-buttons" }, this.go, button("Stop", () => this.link?.send({ do: "stop" }))),
      this.again,
    );
    const left = make("div", { className: "s-left" }, this.grid, this.scales, this.status);
    const right = make("div", { className: "s-right" }, panel, this.receipts.element);
    this.append(make("div", { className: "s-split" }, left, right));
  }

  #connect() {
    this.again.hidden = true;
    this.link = new Link("image", {
      note: (note) => this.#note(note),
      picture: (head, bitmaps) => this.#draw(head, bitmaps),
      stream: () => this.receipts.say("Pictures need a WebSocket, which did not come through.", "wrong"),
      end: (why) => {
        this.link = undefined;
        this.again.hidden = false;
        this.receipts.say(why, "wrong");
      },
    });
  }

  #make() {
    const label = this.label.value.trim();
    const count = Math.max(1, Number(this.count.value) || 1);
    const words = { do: "image", labels: Array(count).fill(label || null), preset: this.preset.value };
    if (this.seed.value) words.seed = Number(this.seed.value);
    if (this.cfg.value) words.cfg = Number(this.cfg.value);
    this.link?.send(words);
  }

  #note(note) {
    if (note.say === "model") this.#modelled(note);
    else if (note.say === "started") this.scales.replaceChildren();
    else if (note.why) this.receipts.say(note.why, note.say === "warning" ? "warning" : "wrong");
  }

  #modelled(note) {
    this.status.textContent = note.state === "ready" ? `${note.model} is ready.` : `${note.model}: ${note.state}`;
    if (note.state === "failed") this.receipts.say(note.trouble, "wrong");
    if (note.state !== "ready") return;
    this.go.disabled = false;
    this.classes.replaceChildren(...note.classes.map((value) => make("option", { value })));
    this.preset.replaceChildren(...note.presets.map((name) => make("option", {}, name)));
    if (note.classes.length > 24) return;
    this.picker.replaceChildren(...note.classes.map((name) => this.#choice(name)));
    if (!this.label.value) this.label.value = note.classes[0];
  }

  #choice(name) {
    const choose = () => {
      this.label.value = name;
      this.#make();
    };
    return make("button", { type: "button", className: "s-preset", onclick: choose }, name);
  }

  #draw(head, bitmaps) {
    const side = head.patches[head.scale];
    this.grid.style.setProperty("--columns", Math.ceil(Math.sqrt(bitmaps.length)));
    this.grid.replaceChildren(
      ...bitmaps.map((bitmap, number) =>
        make(
          "figure",
          {},
          canvas(bitmap),
          make("figcaption", {}, `${head.labels[number]} · seed ${head.seeds[number]}`),
        ),
      ),
    );
    this.scales.append(make("figure", {}, canvas(bitmaps[0]), make("figcaption", {}, `${side}×${side}`)));
    const state = head.last ? "done" : "growing";
    this.status.textContent = `scale ${head.scale + 1}/${head.patches.length} · ${head.ms} ms · ${state}`;
    this.dataset.scale = head.scale + 1;
  }
}

function canvas(bitmap) {
  const element = make("canvas", { width: bitmap.width, height: bitmap.height, className: "s-canvas" });
  element.getContext("2d").drawImage(bitmap, 0, 0);
  return element;
}

customElements.define("studio-image", StudioImage);
