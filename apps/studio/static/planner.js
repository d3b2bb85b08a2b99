// What a model would hold, before it is loaded: a form, and a table with the verdict.

import { button, bytes, field, make } from "./dom.js";

const FIELDS = [
  ["sequences", "sequences", 1],
  ["tokens", "tokens of each text or video", ""],
  ["shared", "tokens in common", ""],
  ["window", "window", ""],
  ["sink", "sink", ""],
  ["seconds", "seconds of a video", ""],
];

export class Planner {
  constructor() {
    this.model = make("select", {});
    this.controls = Object.fromEntries(
      FIELDS.map(([name, , value]) => [name, make("input", { type: "number", min: 0, value })]),
    );
    this.memory = make("input", { placeholder: "such as 24GiB", value: "1GiB" });
    this.dtype = make("select", {}, ...["", "fp32", "bf16"].map((name) => make("option", { value: name }, name || "of this machine")));
    this.answer = make("div", { className: "s-table", role: "status" });
    const fields = FIELDS.map(([name, label]) => field(label, this.controls[name]));
    this.element = make(
      "div",
      { className: "s-panel" },
      make("div", { className: "s-fields" }, field("model", this.model), ...fields, field("memory there is", this.memory), field("numbers", this.dtype)),
      make("div", { className: "s-buttons" }, button("Plan", () => this.#plan())),
      this.answer,
    );
  }

  /** Ask once which models there are. */
  async fill() {
    if (this.model.options.length) return;
    const answer = await fetch("/plan/models").catch(() => null);
    if (answer?.ok) this.model.replaceChildren(...(await answer.json()).map((name) => make("option", {}, name)));
  }

  async #plan() {
    const asked = new URLSearchParams({ model: this.model.value });
    for (const [name, control] of Object.entries(this.controls)) if (control.value !== "") asked.set(name, control.value);
    if (this.memory.value) asked.set("memory", this.memory.value);
    if (this.dtype.value) asked.set("dtype", this.dtype.value);
    this.answer.replaceChildren("It is being planned…");
    const answer = await fetch(`/plan?${asked}`).catch(() => null);
    if (!answer) return this.answer.replaceChildren("The server does not answer any more.");
    const told = await answer.json();
    this.answer.replaceChildren(...(answer.ok ? table(told) : [told.why ?? "A field holds no number that fits."]));
  }
}

function table(plan) {
  const rows = Object.entries(plan.memory).map(([what, share]) => [what, share.readable, share.how]);
  rows.push(["total", plan.total.readable, `not counted: ${plan.total["not counted"]}`]);
  rows.push(["by the published formula", plan.formula.readable, plan.formula.how]);
  const line = (cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell ?? "")));
  const body = make("table", {}, make("tbody", {}, ...rows.map(line)));
  if (plan.budget == null) return [body];
  const left = plan.budget - plan.total.bytes;
  const verdict = left >= 0 ? `It fits, ${bytes(left)} are left` : `It is ${bytes(-left)} too much`;
  const tokens = plan.most_tokens == null ? "" : `, or ${plan.most_tokens} tokens of each`;
  return [make("p", { className: left >= 0 ? "" : "late" }, `${verdict}; at most ${plan.most_sequences} sequences fit${tokens}.`), body];
}
