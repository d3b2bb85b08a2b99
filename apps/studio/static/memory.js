// <studio-memory>: who holds which pages just now, and the kernels that read them.

import { bytes, make } from "./dom.js";
import { Planner } from "./planner.js";

const EVERY = 1000; // milliseconds between two looks

class StudioMemory extends HTMLElement {
  connectedCallback() {
    if (!this.map) this.#build();
    this.watcher = new IntersectionObserver(([entry]) => this.#seen(entry.isIntersecting));
    this.watcher.observe(this);
  }

  disconnectedCallback() {
    this.watcher.disconnect();
    clearInterval(this.timer);
  }

  #build() {
    this.total = make("div", { className: "s-readout", role: "status" });
    this.bar = make("div", { className: "s-arena", role: "img", "aria-label": "The arena by who holds what" });
    this.map = make("div", { className: "s-map" });
    this.planner = new Planner();
    this.kernels = make("div", { className: "s-table" }, "The kernels are being tried…");
    this.append(
      make("h3", {}, "Memory"),
      this.total,
      this.bar,
      this.map,
      make("h3", {}, "Attention kernels"),
      this.kernels,
      make("h3", {}, "Planner"),
      this.planner.element,
    );
  }

  #seen(visible) {
    clearInterval(this.timer);
    if (!visible) return;
    this.#look();
    this.timer = setInterval(() => this.#look(), EVERY);
    if (!this.tried) this.#tryKernels();
    this.planner.fill();
  }

  async #look() {
    const answer = await fetch("/memory").catch(() => null);
    if (!answer?.ok) return;
    const { arena, sessions } = await answer.json();
    const budget = arena.budget == null ? "without a limit" : `of ${bytes(arena.budget)}`;
    const leases = arena.leases.map((lease) => `${lease.owner} ${bytes(lease.bytes)}`).join(" · ");
    this.total.textContent = `${bytes(arena.held)} held ${budget}. ${leases}`;
    this.bar.replaceChildren(...leaseBar(arena));
    this.map.replaceChildren(...pipelines(sessions));
    if (!sessions.length) this.map.replaceChildren("No session is open: every page is free.");
  }

  async #tryKernels() {
    this.tried = true;
    const answer = await fetch("/kernels").catch(() => null);
    if (!answer?.ok) {
      this.tried = false;
      return;
    }
    this.kernels.replaceChildren(kernelTable(await answer.json()));
  }
}

/** A stretch for each lease, as long as its bytes; of the budget, or of all that is held. */
function leaseBar(arena) {
  const whole = arena.budget ?? arena.held;
  const held = arena.leases.map((lease) => {
    const part = make("i", { title: `${lease.owner}: ${bytes(lease.bytes)}` });
    part.style.width = `${(100 * lease.bytes) / whole}%`;
    return part;
  });
  return [...held, make("i", { className: "free" })];
}

/** The sessions under the pipeline that they share. */
function pipelines(sessions) {
  const models = [...new Set(sessions.map((session) => session.model))];
  return models.flatMap((model) => {
    const mine = sessions.filter((session) => session.model === model);
    const count = mine.length === 1 ? "one session" : `${mine.length} sessions share it`;
    return [make("h4", { className: "s-pipeline" }, `${model}: ${count}`), ...mine.map(sessionCard)];
  });
}

function sessionCard(session) {
  const title = make("h4", {}, `${session.tab} · session ${session.session}`);
  const pools = session.pools.length ? session.pools.map(poolCard) : ["It holds no pages just now."];
  return make("section", { className: "s-card" }, title, ...pools);
}

/** A square for each page: free, in one table, or shared by several. */
function poolCard(pool) {
  const squares = pool.refs.map((refs) => {
    const state = refs === 0 ? "free" : refs === 1 ? "used" : "shared";
    return make("i", { className: state, title: `${refs} tables hold this page` });
  });
  const facts = [
    `${pool.pages - pool.free} of ${pool.pages} pages of ${bytes(pool.page_bytes)}`,
    pool.pages === pool.free ? "none in use" : `${Math.round(100 * pool.fill)} % full`,
    `${pool.shared} shared`,
    `${pool.evictions} tokens evicted`,
    `${pool.copies} pages copied`,
    `${pool.moves} tokens moved`,
  ];
  return make("div", {}, make("p", {}, `${pool.owner}: ${facts.join(" · ")}`), make("div", { className: "s-pages" }, ...squares));
}

function kernelTable(reports) {
  const head = ["kernel", "installed", "usable", "masks", "pages", "self-test", "why not, and what to do"];
  const rows = reports.map((one) => [
    one.name,
    one.installed ? "yes" : "no",
    one.usable ? "yes" : "no",
    one.masks.join(" "),
    one.paged ? "in place" : "gathered",
    one.selftest,
    one.reason ? `${one.reason}; ${one.fix}.` : "",
  ]);
  const line = (cells, tag) => make("tr", {}, ...cells.map((cell) => make(tag, {}, cell)));
  return make("table", {}, make("thead", {}, line(head, "th")), make("tbody", {}, ...rows.map((row) => line(row, "td"))));
}

customElements.define("studio-memory", StudioMemory);
