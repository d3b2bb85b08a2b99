// Where pictures are drawn: a canvas for each branch, side by side, or an <img> where there is no socket.

import { make } from "./dom.js";

/** Draws what comes; small pictures are enlarged without being smoothed. */
export class Stage {
  constructor() {
    this.canvases = [];
    this.image = make("img", { className: "s-canvas", alt: "The running video", hidden: true });
    this.cover = make("div", { className: "s-cover", role: "status" });
    this.row = make("div", { className: "s-row" }, this.image);
    this.element = make("div", { className: "s-stage", tabIndex: 0 }, this.row, this.cover);
  }

  /** Bitmaps of one moment. */
  draw(bitmaps) {
    while (this.canvases.length < bitmaps.length) this.#add();
    while (this.canvases.length > bitmaps.length) this.canvases.pop().remove();
    bitmaps.forEach((bitmap, number) => {
      const canvas = this.canvases[number];
      if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
        canvas.width = bitmap.width;
        canvas.height = bitmap.height;
      }
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
    });
  }

  /** Show this endless image instead; "" ends it. */
  stream(url) {
    this.image.hidden = !url;
    if (url) this.image.src = url;
    else this.image.removeAttribute("src");
  }

  /** Words over the picture; "" takes them away. */
  say(words) {
    this.cover.textContent = words;
    this.cover.hidden = !words;
  }

  #add() {
    const canvas = make("canvas", { className: "s-canvas", role: "img" });
    canvas.setAttribute("aria-label", `Branch ${this.canvases.length + 1} of the world`);
    this.canvases.push(canvas);
    this.row.append(canvas);
  }
}
