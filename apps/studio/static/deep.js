// Deep links: /?tab=world&prompt=…&seed=7&opening=snow opens that tab with these words; nothing begins by itself.

import { make } from "./dom.js";

const asked = new URLSearchParams(location.search);
const PATIENCE = 20_000; // milliseconds that the tabs may take to appear

/** What the address says of a field of this tab; "" where it names another tab or nothing. */
export function opened(tab, name) {
  return (asked.get("tab") ?? "world") === tab ? (asked.get(name) ?? "") : "";
}

/** The address that opens a tab like this; values that are empty are left out. */
export function linkTo(tab, fields) {
  const told = Object.entries(fields).filter(([, value]) => value !== "" && value != null);
  return `${location.origin}${location.pathname}?${new URLSearchParams([["tab", tab], ...told])}`;
}

/** A button that puts such an address into the address bar and the clipboard. */
export function linkButton(tab, fields) {
  const one = make("button", { type: "button", className: "s-button" }, "Copy link");
  one.onclick = async () => {
    const address = linkTo(tab, fields());
    history.replaceState(null, "", address);
    await navigator.clipboard?.writeText(address).catch(() => null); // it stands in the address bar anyway
    one.textContent = "Copied";
    setTimeout(() => (one.textContent = "Copy link"), 1500);
  };
  return one;
}

/** Show the tab that the address names, as soon as Gradio has made it. */
export function openTab(names) {
  const wanted = asked.get("tab");
  const label = names[wanted];
  if (!label) return;
  const end = Date.now() + PATIENCE;
  const look = () => {
    const tab = [...document.querySelectorAll("button[role=tab]")].find((one) => one.textContent.trim() === label);
    if (tab) tab.click();
    else if (Date.now() < end) setTimeout(look, 100);
  };
  look();
}
