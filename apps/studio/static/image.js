// <studio-image>: a grid of pictures that grow scale by scale.

import { linkButton, opened } from "./deep.js";
import { button, field, make } from "./dom.js";
import { Mask } from "./mask.js";
import { Receipts } from "./receipts.js";
import { Tab } from "./tab.js";
import { upload } from "./upload.js";

const MOST = 16;

class StudioImage extends Tab {
  name = "image";

  build() {
    this.grid = make("div", { className: "s-grid" });
    this.scales = make("div", { className: "s-scales", "aria-label": "The first picture after each scale" });
    this.status = make("div", { className: "s-readout", role: "status" });
    this.receipts = new Receipts();
    this.label = make("input", { placeholder: "no class", value: opened("image", "prompt") });
    this.label.setAttribute("list", "studio-classes");
    this.label.addEventListener("keydown", (event) => event.key === "Enter" && this.#make());
    this.classes = make("datalist", { id: "studio-classes" });
    this.picker = make("div", { className: "s-cards small" });
    this.count = make("input", { type: "number", min: 1, max: MOST, value: 4 });
    this.seed = make("input", { type: "number", min: 0, placeholder: "drawn", value: opened("image", "seed") });
    this.preset = make("select", {});
    this.cfg = make("input", { type: "number", min: 0, max: 10, step: 0.5, placeholder: "of the preset" });
    this.go = button("Make pictures", () => this.#make(), "Enter");
    this.go.classList.add("primary");
    this.go.disabled = true;
    this.share = linkButton("image", () => ({ prompt: this.label.value, seed: this.seed.value || this.drawn }));
    this.mask = new Mask();
    this.brought = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp" });
    this.brought.addEventListener("change", () => this.#bring());
    this.paint = button("Paint it anew there", () => this.#edit());
    this.paint.disabled = true;
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
      make("div", { className: "s-buttons" }, this.go, button("Stop", () => this.send({ do: "stop" })), this.share),
      make("h3", {}, "Edit"),
      make("p", { className: "s-note" }, "Choose a picture of the grid, draw where it is to change, and choose the class to paint there."),
      this.mask.element,
      make("div", { className: "s-buttons" }, this.paint, button("Clear the drawing", () => this.mask.clear())),
      field("or a picture of yours", this.brought),
      this.again,
    );
    const left = make("div", { className: "s-left" }, this.grid, this.scales, this.status);
    const right = make("div", { className: "s-right" }, panel, this.receipts.element);
    this.append(make("div", { className: "s-split" }, left, right));
  }

  stream() {
    this.receipts.say("Pictures need a WebSocket, which did not come through.", "wrong");
  }

  #make() {
    const label = this.label.value.trim();
    const count = Math.max(1, Number(this.count.value) || 1);
    const words = { do: "image", labels: Array(count).fill(label || null), preset: this.preset.value };
    if (this.seed.value) words.seed = Number(this.seed.value);
    if (this.cfg.value) words.cfg = Number(this.cfg.value);
    this.send(words);
  }

  heard(note) {
    return { model: () => this.#modelled(note), started: () => this.#started(note) };
  }

  #started(note) {
    this.scales.replaceChildren();
    this.drawn = note.seed;
  }

  #modelled(note) {
    this.status.textContent = note.state === "ready" ? `${note.model} is ready.` : `${note.model}: ${note.state}`;
    if (note.state === "failed") this.receipts.say(note.trouble, "wrong");
    if (note.state !== "ready" || this.model?.session === note.session) return;
    this.model = note;
    this.go.disabled = false;
    this.classes.replaceChildren(...note.classes.map((value) => make("option", { value })));
    this.preset.replaceChildren(...note.presets.map((name) => make("option", {}, name)));
    if (note.classes.length > 24) return;
    this.picker.replaceChildren(...note.classes.map((name, number) => this.#choice(name, number)));
    if (!this.label.value) this.label.value = note.classes[0];
  }

  #choice(name, number) {
    const choose = () => {
      this.label.value = name;
      this.#make();
    };
    const image = this.model.model === "tiny-var" ? [make("img", { src: `/studio/preset-tiny-var-${number}.png`, alt: "" })] : [];
    return make("button", { type: "button", className: "s-preset", onclick: choose }, ...image, name);
  }

  picture(head, bitmaps) {
    const side = head.patches[head.scale];
    this.grid.style.setProperty("--columns", Math.ceil(Math.sqrt(bitmaps.length)));
    this.grid.replaceChildren(...bitmaps.map((bitmap, number) => this.#figure(bitmap, number, head)));
    this.scales.append(make("figure", {}, canvas(bitmaps[0]), make("figcaption", {}, `${side}×${side}`)));
    const state = head.last ? "done" : "growing";
    this.status.textContent = `scale ${head.scale + 1}/${head.patches.length} · ${head.ms} ms · ${state}`;
    this.dataset.scale = head.scale + 1;
    if (head.last) this.#choose(0);
  }

  #figure(bitmap, number, head) {
    const words = `${head.labels[number]} · seed ${head.seeds[number]}`;
    const figure = make("figure", {}, canvas(bitmap), make("figcaption", {}, words));
    if (!head.last) return figure;
    figure.tabIndex = 0;
    figure.setAttribute("role", "button");
    figure.setAttribute("aria-label", `Edit ${words}`);
    figure.onclick = () => this.#choose(number);
    figure.onkeydown = (event) => event.key === "Enter" && this.#choose(number);
    return figure;
  }

  /** This picture of the grid is the one to edit. */
  #choose(number) {
    const figures = [...this.grid.children];
    figures.forEach((figure, at) => figure.setAttribute("aria-pressed", at === number));
    this.editing = { picture: number };
    this.mask.show(figures[number].querySelector("canvas"));
    this.paint.disabled = false;
  }

  /** A picture of the visitor is the one to edit, as large as the model's. */
  async #bring() {
    const [file] = this.brought.files;
    const side = this.grid.querySelector("canvas")?.width;
    if (!file) return;
    if (!side) return this.receipts.say("Make one picture first: it tells how large this model's pictures are.", "wrong");
    try {
      this.editing = { upload: await upload(this.model, file) };
    } catch (error) {
      this.receipts.say(error.message, "wrong");
      return;
    }
    const bitmap = await createImageBitmap(file);
    const least = Math.min(bitmap.width, bitmap.height);
    const fitted = make("canvas", { width: side, height: side });
    const corner = [(bitmap.width - least) / 2, (bitmap.height - least) / 2];
    fitted.getContext("2d").drawImage(bitmap, ...corner, least, least, 0, 0, side, side);
    this.mask.show(fitted);
    this.paint.disabled = false;
  }

  #edit() {
    const words = { do: "edit", ...this.editing, mask: this.mask.data(), preset: this.preset.value };
    words.label = this.label.value.trim();
    words.variants = Math.max(1, Number(this.count.value) || 1);
    if (this.seed.value) words.seed = Number(this.seed.value);
    if (this.cfg.value) words.cfg = Number(this.cfg.value);
    this.send(words);
  }
}

function canvas(bitmap) {
  const element = make("canvas", { width: bitmap.width, height: bitmap.height, className: "s-canvas" });
  element.getContext("2d").drawImage(bitmap, 0, 0);
  return element;
}

customElements.define("studio-image", StudioImage);
