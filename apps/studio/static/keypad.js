// The keys of a world on the screen: lit while held, lit in a second colour once a chunk was made under them.

import { make } from "./dom.js";
import { cap } from "./keys.js";

const GROUPS = [
  ["KeyW", "KeyA", "KeyS", "KeyD"],
  ["ArrowUp", "ArrowLeft", "ArrowDown", "ArrowRight"],
];

/** Buttons for fingers and mice as well. */
export class Keypad {
  constructor(keys) {
    this.keys = keys;
    this.element = make("div", { className: "s-keypad", role: "group", "aria-label": "Keys of the world" });
    this.caps = new Map();
  }

  /** Show the keys that the model obeys. */
  show(codes) {
    this.caps.clear();
    const rest = codes.filter((code) => !GROUPS.flat().includes(code));
    const groups = [...GROUPS.map((group) => group.filter((code) => codes.includes(code))), rest];
    this.element.replaceChildren(
      ...groups
        .filter((group) => group.length)
        .map((group) => make("div", { className: "s-keys" }, ...group.map((code) => this.#cap(code)))),
    );
    if (!codes.length) this.element.replaceChildren("This model has no keys: it obeys words only.");
  }

  held(codes) {
    for (const [code, element] of this.caps) element.classList.toggle("held", codes.has(code));
  }

  applied(codes) {
    for (const [code, element] of this.caps) element.classList.toggle("applied", codes.includes(code));
  }

  #cap(code) {
    const element = make("button", { type: "button", className: `s-cap ${code}`, "aria-label": code }, cap(code));
    element.dataset.key = code;
    const up = () => this.keys.release(code);
    element.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      element.setPointerCapture(event.pointerId);
      this.keys.press(code);
    });
    element.addEventListener("pointerup", up);
    element.addEventListener("pointercancel", up);
    this.caps.set(code, element);
    return element;
  }
}
