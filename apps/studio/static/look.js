// A mouse or fingers on the picture itself: drag to look, and a stick under each thumb.

import { make } from "./dom.js";

const DEAD = 14; // pixels that a stick may move without meaning anything
const EVERY = 50; // milliseconds between two moves of the mouse that are told
const WALK = { up: "KeyW", left: "KeyA", down: "KeyS", right: "KeyD" };
const TURN = { up: "ArrowUp", left: "ArrowLeft", down: "ArrowDown", right: "ArrowRight" };

/**
 * Under the left thumb, and under a mouse that the model does not obey, the picture is a stick for WASD; under the
 * right thumb it is one for the arrows. A model that obeys the mouse gets pixels from mouse and right thumb.
 */
export class Look {
  constructor(element, keys, send) {
    this.element = element;
    element.style.touchAction = "none"; // a thumb on the stick would scroll the page
    this.keys = keys;
    this.send = send;
    this.mouse = false; // whether the model obeys it
    this.held = new Map(); // what each pointer does
    this.x = this.y = 0; // moved since the last time it was told
    this.gone = new AbortController();
    const options = { signal: this.gone.signal };
    element.addEventListener("pointerdown", (event) => this.#down(event), options);
    element.addEventListener("pointermove", (event) => this.#move(event), options);
    for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
      element.addEventListener(end, (event) => this.#up(event), options);
    }
    this.beat = setInterval(() => this.#tell(), EVERY);
  }

  close() {
    clearInterval(this.beat);
    for (const id of [...this.held.keys()]) this.#up({ pointerId: id });
    this.gone.abort();
  }

  #down(event) {
    if (event.button !== 0 || !this.keys.active()) return;
    const box = this.element.getBoundingClientRect();
    const right = event.pointerType === "touch" && event.clientX - box.left > box.width / 2;
    const looks = this.mouse && (right || event.pointerType === "mouse");
    this.element.setPointerCapture(event.pointerId);
    const at = { x: event.clientX, y: event.clientY };
    const one = { ...at, startX: at.x, startY: at.y, looks, codes: right ? TURN : WALK };
    if (!looks) {
      one.stick = make("div", { className: "s-stick" }, make("i"));
      one.stick.style.left = `${at.x - box.left}px`;
      one.stick.style.top = `${at.y - box.top}px`;
      this.element.append(one.stick);
    }
    this.held.set(event.pointerId, one);
  }

  #move(event) {
    const one = this.held.get(event.pointerId);
    if (!one) return;
    if (one.looks) {
      this.x += event.clientX - one.x;
      this.y += event.clientY - one.y;
    } else {
      this.#lean(one, event.clientX - one.startX, event.clientY - one.startY);
    }
    one.x = event.clientX;
    one.y = event.clientY;
  }

  /** The stick presses the key of the way that it leans to most. */
  #lean(one, x, y) {
    const sideways = Math.abs(x) > Math.abs(y);
    const far = Math.max(Math.abs(x), Math.abs(y)) > DEAD;
    const way = sideways ? (x < 0 ? "left" : "right") : y < 0 ? "up" : "down";
    this.#hold(one, far ? one.codes[way] : undefined);
    const shrink = Math.min(1, 40 / Math.hypot(x, y));
    one.stick.firstChild.style.translate = `${x * shrink}px ${y * shrink}px`;
  }

  #hold(one, code) {
    if (one.code === code) return;
    if (one.code) this.keys.release(one.code);
    one.code = code;
    if (code) this.keys.press(code);
  }

  #up(event) {
    const one = this.held.get(event.pointerId);
    if (!one) return;
    this.held.delete(event.pointerId);
    this.#hold(one, undefined);
    one.stick?.remove();
  }

  #tell() {
    if (!this.x && !this.y) return;
    this.send({ do: "mouse", x: this.x, y: this.y });
    this.x = this.y = 0;
  }
}
