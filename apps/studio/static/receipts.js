// What was asked in words, and when it counts: the receipt comes at once, the mark when its first frame is seen.

import { make } from "./dom.js";

const MOST = 12;

/** A list that is read aloud as it grows. */
export class Receipts {
  constructor() {
    this.element = make("ol", { className: "s-receipts", "aria-live": "polite", "aria-label": "Receipts" });
    this.waiting = [];
  }

  /** A receipt for a prompt. */
  add(note) {
    const branch = note.branches > 1 ? ` · branch ${note.branch + 1}` : "";
    const over = note.over > 1 ? ` over ${note.over} chunks` : "";
    const cost = note.forwards ? `${note.tokens} tokens again` : "nothing computed again";
    const words = `“${note.prompt}” counts from ${note.at} s, chunk ${note.chunk} (${note.mode}${over}, ${cost}${branch})`;
    this.waiting.push({ chunk: note.chunk, line: this.#line(words, "waiting") });
  }

  /** Anything else worth a line. */
  say(words, kind = "") {
    return this.#line(words, kind);
  }

  /** A picture of this chunk was seen. */
  seen(chunk) {
    this.waiting = this.waiting.filter((receipt) => {
      if (chunk < receipt.chunk) return true;
      receipt.line.className = "applied";
      return false;
    });
  }

  #line(words, kind) {
    const line = make("li", { className: kind }, words);
    this.element.prepend(line);
    while (this.element.children.length > MOST) this.element.lastChild.remove();
    return line;
  }
}
