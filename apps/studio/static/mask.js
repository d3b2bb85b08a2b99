// Drawing over a picture what is to be painted anew: with a mouse, a finger or a pen, or the lower half by a key.

import { make } from "./dom.js";

const PAINT = "#f00";

/** A picture with a drawing on it; `data()` is the drawing as a PNG, white where it was painted. */
export class Mask {
  constructor() {
    this.picture = make("canvas", { width: 1, height: 1 });
    this.drawing = make("canvas", { width: 1, height: 1, tabIndex: 0, role: "img" });
    this.drawing.setAttribute("aria-label", "Draw where the picture is to change; L marks the lower half, C clears");
    this.element = make("div", { className: "s-mask" }, this.picture, this.drawing);
    this.drawing.addEventListener("pointerdown", (event) => this.#down(event));
    this.drawing.addEventListener("pointermove", (event) => event.buttons && this.#paint(event));
    this.drawing.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Show this picture, with nothing drawn on it. */
  show(image) {
    for (const canvas of [this.picture, this.drawing]) {
      canvas.width = image.width;
      canvas.height = image.height;
    }
    this.picture.getContext("2d").drawImage(image, 0, 0);
  }

  clear() {
    this.drawing.getContext("2d").clearRect(0, 0, this.drawing.width, this.drawing.height);
  }

  data() {
    const { width, height } = this.drawing;
    const told = make("canvas", { width, height }).getContext("2d");
    const drawn = this.drawing.getContext("2d").getImageData(0, 0, width, height);
    for (let at = 0; at < drawn.data.length; at += 4) {
      drawn.data.fill(drawn.data[at + 3] > 127 ? 255 : 0, at, at + 3);
      drawn.data[at + 3] = 255;
    }
    told.putImageData(drawn, 0, 0);
    return told.canvas.toDataURL("image/png");
  }

  #down(event) {
    event.preventDefault();
    this.drawing.focus({ preventScroll: true });
    this.drawing.setPointerCapture(event.pointerId);
    this.last = undefined;
    this.#paint(event);
  }

  #paint(event) {
    const box = this.drawing.getBoundingClientRect();
    const scale = this.drawing.width / box.width;
    const here = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
    const pen = this.drawing.getContext("2d");
    pen.strokeStyle = PAINT;
    pen.lineCap = "round";
    pen.lineWidth = this.drawing.width / 8;
    pen.beginPath();
    pen.moveTo(...(this.last ?? here));
    pen.lineTo(here[0] + 0.01, here[1]);
    pen.stroke();
    this.last = here;
  }

  #key(event) {
    if (event.code === "KeyC") this.clear();
    if (event.code !== "KeyL") return;
    const { width, height } = this.drawing;
    const pen = this.drawing.getContext("2d");
    pen.fillStyle = PAINT;
    pen.fillRect(0, height / 2, width, height / 2);
  }
}
