// The page before the page: shows what loads, and makes way as soon as the real one is there.

import "./head.js";

const EVERY = 500; // milliseconds between two looks

async function look() {
  const answer = await fetch("/loading").catch(() => null);
  const page = answer?.ok ? (await answer.json()).page : { ready: false, trouble: "" };
  if (page.ready) location.reload();
  else if (page.trouble) document.getElementById("page").textContent = page.trouble;
  else setTimeout(look, EVERY);
}

look();
