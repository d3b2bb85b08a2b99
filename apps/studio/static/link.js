// The line to the server: a WebSocket, or an <img> and small requests where sockets do not come through.

const POLL = 500; // milliseconds between two looks at the notes without a socket

/**
 * Opens a session of a tab. Handlers: note(words), picture(head, bitmaps), stream(url) and end(why).
 * The next picture is sent only after this one was drawn, so a slow page never builds a queue.
 */
export class Link {
  constructor(tab, handlers) {
    this.tab = tab;
    this.handlers = handlers;
    this.opened = false;
    this.left = false;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    this.socket = new WebSocket(`${scheme}://${location.host}/live/${tab}`);
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => (this.opened = true);
    this.socket.onmessage = (event) => this.#hear(event.data);
    this.socket.onclose = (event) => this.#closed(event);
  }

  /** Ask for something, such as {do: "undo"}. */
  send(words) {
    if (this.key) {
      fetch(`/say/${this.key}`, { method: "POST", body: JSON.stringify(words) }).then(refusal(this.handlers));
    } else if (this.socket.readyState === WebSocket.OPEN) {
      this.socket.send(JSON.stringify(words));
    }
  }

  /** End the session: its work stops and its pages are free. */
  close() {
    this.left = true;
    clearInterval(this.polling);
    this.socket.close();
    if (this.key) this.handlers.stream("");
  }

  async #hear(data) {
    if (typeof data === "string") {
      const note = JSON.parse(data);
      if (note.end) this.why = note.why;
      this.handlers.note(note);
      return;
    }
    const { head, jpegs } = unpack(data);
    const bitmaps = await Promise.all(jpegs.map((jpeg) => createImageBitmap(jpeg)));
    this.handlers.picture(head, bitmaps);
    bitmaps.forEach((bitmap) => bitmap.close());
    this.send({ do: "shown", picture: head.picture });
  }

  #closed(event) {
    if (this.left) return;
    if (this.opened) this.handlers.end(this.why || event.reason || "The server does not answer any more.");
    else this.#watch();
  }

  /** Without a socket: an image that never ends, requests for orders, and polling for words. */
  #watch() {
    this.key = crypto.randomUUID ? crypto.randomUUID() : `${Math.random()}${Math.random()}`.replaceAll(".", "");
    this.handlers.stream(`/watch/${this.tab}.mjpeg?key=${this.key}`);
    this.polling = setInterval(async () => {
      const answer = await fetch(`/notes/${this.key}`).catch(() => null);
      if (answer?.ok) (await answer.json()).forEach((note) => this.handlers.note(note));
    }, POLL);
  }
}

/** The head of a picture and its JPEGs; `wire.py` tells how they are packed. */
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let start = 4 + length;
  const jpegs = head.sizes.map((size) => {
    start += size;
    return new Blob([new Uint8Array(buffer, start - size, size)], { type: "image/jpeg" });
  });
  return { head, jpegs };
}

function refusal(handlers) {
  return async (answer) => {
    if (!answer.ok) handlers.note(await answer.json());
  };
}
