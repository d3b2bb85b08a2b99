// The log of questions: when each was asked, what was said, and how soon.

import { button, make } from "./dom.js";

/** Entries grow as the answer comes; all of them can be kept as JSON lines. */
export class Questions {
  constructor() {
    this.entries = new Map();
    this.list = make("ol", { className: "s-receipts", "aria-live": "polite", "aria-label": "Questions and answers" });
    this.save = button("Save the log", () => this.#save());
    this.element = make("div", {}, this.list, this.save);
    this.clear();
  }

  clear() {
    this.entries.clear();
    this.list.replaceChildren();
    this.save.hidden = true;
  }

  asked(note) {
    const when = note.at == null ? "" : `at ${clock(note.at)}`;
    const time = make("time", {}, when);
    const answer = make("b", { className: "s-answer" }, "…");
    const line = make("li", { className: "waiting" }, time, " ", note.question, " ", answer);
    this.entries.set(note.number, { question: note.question, at: note.at, answer: "", line, time, field: answer });
    this.list.prepend(line);
    this.save.hidden = false;
  }

  piece(note) {
    const entry = this.entries.get(note.number);
    entry.answer += note.text;
    entry.field.textContent = entry.answer;
    entry.time.textContent = clock(note.seen);
  }

  answered(note) {
    const entry = this.entries.get(note.number);
    Object.assign(entry, { seen: note.seen, first_ms: note.first_ms });
    entry.line.className = "applied";
    entry.time.textContent = clock(note.seen);
    entry.line.append(` (first word after ${note.first_ms} ms)`);
  }

  /** A question that cannot be answered; whether this was about one. */
  refused(note) {
    const entry = this.entries.get(note.number);
    if (!entry) return false;
    entry.line.className = "wrong";
    entry.field.textContent = note.why;
    return true;
  }

  #save() {
    const lines = [...this.entries.values()].map(({ question, answer, at, seen, first_ms }) =>
      JSON.stringify({ question, answer, at_s: at, seen_s: seen, first_token_ms: first_ms }),
    );
    const url = URL.createObjectURL(new Blob([lines.join("\n"), "\n"], { type: "application/jsonl" }));
    make("a", { href: url, download: "questions.jsonl" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
}

/** 72.5 -> 1:12.5. */
export function clock(seconds) {
  const rest = (seconds % 60).toFixed(1).padStart(4, "0");
  return `${Math.floor(seconds / 60)}:${rest}`;
}
