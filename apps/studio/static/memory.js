// <studio-memory>: who holds which pages just now, and the kernels that read them.

import { bytes, make } from "./dom.js";

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
    this.map = make("div", { className: "s-map" });
    this.kernels = make("div", { className: "s-table" }, "The kernels are being tried…");
    this.append(
      make("h3", {}, "Memory"),
      this.total,
      this.map,
      make("h3", {}, "Attention kernels"),
      this.kernels,
    );
  }

  #seen(visible) {
    clearInterval(this.timer);
    if (!visible) return;
    this.#look();
    this.timer = setInterval(() => this.#look(), EVERY);
    if (!this.tried) this.#tryKernels();
  }

  async #look() {
    const answer = await fetch("/memory").catch(() => null);
    if (!answer?.ok) return;
    const { arena, sessions } = await answer.json();
    const budget = arena.budget == null ? "without a limit" : `of ${bytes(arena.budget)}`;
    const leases = arena.leases.map((lease) => `${lease.owner} ${bytes(lease.bytes)}`).join(" · ");
    this.total.textContent = `${bytes(arena.held)} held ${budget}. ${leases}`;
    this.map.replaceChildren(...sessions.map(sessionCard));
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

function sessionCard(session) {
  const title = make("h4", {}, `${session.tab} · ${session.model} · session ${session.session}`);
  const pools = session.pools.length ? session.pools.map(poolCard) : ["It holds no pages between two pictures."];
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
    `${Math.round(100 * pool.fill)} % full`,
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
