// Keys that are held, by physical place (KeyW is the same key on every keyboard), from hands and from fingers.

const HEARTBEAT = 100; // milliseconds; the server lets go of keys after half a second without one
const TYPING = new Set(["INPUT", "TEXTAREA", "SELECT"]);

/** Tells the server what goes down and up while `active()`; `onchange` gets the set that is held. */
export class Keys {
  constructor(send, active, onchange) {
    this.send = send;
    this.active = active;
    this.onchange = onchange;
    this.obeyed = new Set();
    this.held = new Set();
    this.gone = new AbortController();
    const options = { signal: this.gone.signal };
    document.addEventListener("keydown", (event) => this.#down(event), options);
    document.addEventListener("keyup", (event) => this.release(event.code), options);
    // A key whose release nobody saw would stay stuck.
    window.addEventListener("blur", () => this.releaseAll(), options);
    document.addEventListener("visibilitychange", () => this.releaseAll(), options);
    this.beat = setInterval(() => this.held.size && this.send({ do: "alive" }), HEARTBEAT);
  }

  press(code) {
    if (!this.obeyed.has(code) || this.held.has(code)) return;
    this.held.add(code);
    this.send({ do: "down", key: code });
    this.onchange(this.held);
  }

  release(code) {
    if (!this.held.delete(code)) return;
    this.send({ do: "up", key: code });
    this.onchange(this.held);
  }

  releaseAll() {
    [...this.held].forEach((code) => this.release(code));
  }

  close() {
    this.releaseAll();
    clearInterval(this.beat);
    this.gone.abort();
  }

  #down(event) {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || typing(event) || !this.active()) return;
    if (!this.obeyed.has(event.code)) return;
    event.preventDefault(); // arrows would scroll the page
    this.press(event.code);
  }
}

/** Whether somebody writes words, which must not move the player. */
export function typing(event) {
  return TYPING.has(event.target.tagName) || event.target.isContentEditable;
}

const PLACES = { KeyW: "W", KeyA: "A", KeyS: "S", KeyD: "D" };
const ARROWS = { ArrowUp: "↑", ArrowLeft: "←", ArrowDown: "↓", ArrowRight: "→" };
export const CAPS = { ...PLACES, ...ARROWS };

/** The name on the cap of a key. */
export function cap(code) {
  return CAPS[code] ?? code.replace(/^(Key|Digit)/, "");
}
