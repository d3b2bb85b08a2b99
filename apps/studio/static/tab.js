// What every tab with a session does: it connects at the first look, tells what goes wrong, and leaves with the page.

import { button } from "./dom.js";
import { Link } from "./link.js";

/** A kind of tab gives `name`, `receipts`, build(), heard() and picture(), and refines what else it needs to. */
export class Tab extends HTMLElement {
  connectedCallback() {
    if (!this.again) {
      this.again = button("Connect again", () => this.connect());
      this.again.hidden = true;
      this.build();
    }
    this.gone = new AbortController();
    window.addEventListener("pagehide", () => this.leave(), { signal: this.gone.signal });
    this.watcher = new IntersectionObserver(([entry]) => this.seen(entry.isIntersecting));
    this.watcher.observe(this);
  }

  disconnectedCallback() {
    this.gone.abort();
    this.watcher.disconnect();
    this.leave();
  }

  seen(visible) {
    if (visible && !this.link) this.connect();
  }

  connect() {
    this.again.hidden = true;
    this.stage?.say("Connecting…");
    this.link = new Link(this.name, {
      note: (note) => this.note(note),
      picture: (head, bitmaps) => this.picture(head, bitmaps),
      stream: (url) => this.stream(url),
      end: (why) => this.ended(why),
    });
  }

  send(words) {
    this.link?.send(words);
  }

  /** Words of the server: what heard() has no answer to, and says why, is told. */
  note(note) {
    const answer = this.heard(note)[note.say];
    if (answer) answer();
    else if (note.why) this.receipts.say(note.why, note.say === "warning" ? "warning" : "wrong");
  }

  stream(url) {
    this.stage.stream(url);
  }

  leave() {
    this.link?.close();
    this.link = undefined;
  }

  ended(why) {
    this.link = undefined;
    this.again.hidden = false;
    if (this.stage) this.stage.say(why);
    else this.receipts.say(why, "wrong");
  }
}
