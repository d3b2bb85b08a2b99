// The tape of a recording: keys as stretches, prompts as marks, and a handle to go anywhere.

import { make } from "./dom.js";
import { cap } from "./keys.js";

/** Calls `go(chunk)` when somebody moves the handle. */
export class Timeline {
  constructor(go) {
    this.handle = make("input", { type: "range", min: 0, max: 0, value: 0, className: "s-handle" });
    this.handle.setAttribute("aria-label", "Chunk of the recording");
    this.handle.addEventListener("change", () => go(Number(this.handle.value)));
    this.track = make("div", { className: "s-track", "aria-hidden": "true" });
    this.element = make("div", { className: "s-timeline" }, this.track, this.handle);
  }

  /** Entries {chunk, keys, chunks} and {chunk, prompt, mode} of a tape of so many chunks. */
  show(entries, chunks) {
    this.handle.max = Math.max(0, chunks - 1);
    this.at(0);
    const place = (chunk) => `${(100 * chunk) / chunks}%`;
    this.track.replaceChildren(
      ...entries.map((entry) => {
        const mark = entry.prompt == null ? stretch(entry) : make("b", { title: `“${entry.prompt}” (${entry.mode})` });
        mark.style.left = place(entry.chunk);
        if (entry.prompt == null) mark.style.width = place(entry.chunks);
        return mark;
      }),
    );
  }

  at(chunk) {
    if (document.activeElement !== this.handle || !this.handle.matches(":active")) this.handle.value = chunk;
  }
}

function stretch({ keys, chunks }) {
  const words = keys.map(cap).join(" ");
  return make("i", { className: keys.length ? "" : "idle", title: `${words || "no key"}, ${chunks} chunks` }, words);
}
