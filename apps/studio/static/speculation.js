// One step of speculation: the tree that a draft proposed, and what of it the model would have written too.

import { make } from "./dom.js";

/** A line of the sure word, the proposals in the order of their depth, and the model's own next word. */
export function speculation(step) {
  const depths = [0];
  step.parents.slice(1).forEach((parent) => depths.push(depths[parent] + 1));
  const columns = [];
  step.words.forEach((word, node) => {
    const state = node === 0 ? "sure" : step.accepted.includes(node) ? "accepted" : "refused";
    (columns[depths[node]] ??= []).push(make("b", { className: state, title: `${state}, after “${step.words[step.parents[node]] ?? ""}”` }, word || "·"));
  });
  const own = make("b", { className: "own", title: "the model's own next word" }, step.own);
  return make("div", { className: "s-step" }, ...columns.map((column) => make("span", {}, ...column)), make("span", {}, own));
}
