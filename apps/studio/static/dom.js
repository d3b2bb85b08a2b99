// Making elements without a framework, and never from strings of HTML.

/** An element with properties (or, for names with a dash, attributes) and children. */
export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role" || name === "for") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** A button that says what it does, with its key where it has one. */
export function button(label, onclick, key = "") {
  const element = make("button", { type: "button", className: "s-button", onclick }, label);
  if (key) element.append(make("kbd", {}, key));
  return element;
}

/** A labelled control. */
export function field(label, control) {
  return make("label", { className: "s-field" }, make("span", {}, label), control);
}

/** Bytes as people read them. */
export function bytes(size) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size < 10 && unit ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}
