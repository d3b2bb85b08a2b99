// <studio-head>: the title, and which models are loading.

import { make } from "./dom.js";

const EVERY = 1000; // milliseconds between two looks while something loads
const SAID = {
  waiting: (model) => `${model.model}: waiting`,
  loading: (model) => `${model.model}: loading…`,
  ready: (model) => `${model.model}: ready after ${model.seconds} s`,
  failed: (model) => `${model.model}: ${model.trouble}`,
};

class StudioHead extends HTMLElement {
  connectedCallback() {
    this.models = make("p", { className: "s-models", role: "status", "aria-live": "polite" });
    this.replaceChildren(make("h1", {}, "streamgen studio"), this.models);
    this.#look();
  }

  disconnectedCallback() {
    clearTimeout(this.timer);
  }

  async #look() {
    const answer = await fetch("/loading").catch(() => null);
    const { models } = answer?.ok ? await answer.json() : { models: [] };
    this.models.replaceChildren(
      ...models.map((model) => make("span", { className: model.state }, SAID[model.state](model))),
    );
    const busy = models.some((model) => model.state === "waiting" || model.state === "loading");
    if (busy || !models.length) this.timer = setTimeout(() => this.#look(), EVERY);
  }
}

customElements.define("studio-head", StudioHead);
