// The corner block: what the stream does, in numbers.

import { bytes, make } from "./dom.js";

/** One line of facts; late ones are coloured. */
export class Readout {
  constructor() {
    this.element = make("div", { className: "s-readout", "aria-label": "Numbers of the stream" });
    this.facts = {};
  }

  show(facts) {
    Object.assign(this.facts, facts);
    const f = this.facts;
    if (f.chunk_ms == null) return this.element.replaceChildren();
    const late = f.fps < 0.9 * f.wanted_fps;
    const parts = [
      [`${f.fps}/${f.wanted_fps} fps`, late],
      [`chunk ${f.chunk_ms} ms`],
      [`p95 ${f.p95_ms}`],
      [`lead ${f.lead} s`],
      [f.input_ms == null ? "" : `in→frame ${f.input_ms} ms`],
      [f.shown_ms == null ? "" : `in→seen ${f.shown_ms} ms`],
      [`cache ${bytes(f.cache_bytes)} (sink ${f.sink} + window ${f.window})`],
      [`kernel ${f.kernel}`],
      [`seed ${f.seed}`],
      [f.dropped ? `${f.dropped} not shown` : ""],
    ].filter(([words]) => words);
    this.element.replaceChildren(
      ...parts.map(([words, bad]) => make("span", { className: bad ? "late" : "" }, words)),
    );
  }
}
