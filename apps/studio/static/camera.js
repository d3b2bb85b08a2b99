// The camera of this browser: a picture at a time, the next one only when the last one was taken.

import { make } from "./dom.js";
import { why } from "./upload.js";

const WIDEST = 512; // pixels; more than a small model looks at only costs the network

/** Shows itself in `video`; `start` sends pictures until `stop`. */
export class Camera {
  constructor(refused) {
    this.refused = refused;
    this.video = make("video", { className: "s-canvas", muted: true, playsInline: true, hidden: true });
    this.canvas = document.createElement("canvas");
  }

  /** Ask for the camera; throws a sentence where there is none. */
  async open() {
    if (!navigator.mediaDevices) throw new Error("Browsers give the camera to https and to localhost only.");
    const stream = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: WIDEST } } }).catch((error) => {
      throw new Error(`The camera cannot be used: ${error.message}.`);
    });
    this.video.srcObject = stream;
    this.video.hidden = false;
    await this.video.play();
  }

  start(session, fps) {
    const began = performance.now();
    const look = async () => {
      const at = (performance.now() - began) / 1000;
      const picture = await this.#picture();
      if (!this.running) return;
      const answer = await fetch(`/camera/${session}?at=${at}`, { method: "POST", body: picture }).catch(() => null);
      if (!this.running) return;
      if (!answer?.ok) return this.refused(answer ? await why(answer) : "The server does not answer any more.");
      const next = 1000 / fps - (performance.now() - began - 1000 * at);
      this.timer = setTimeout(look, Math.max(0, next));
    };
    this.running = true;
    look();
  }

  stop() {
    this.running = false;
    clearTimeout(this.timer);
    this.video.srcObject?.getTracks().forEach((track) => track.stop());
    this.video.srcObject = null;
    this.video.hidden = true;
  }

  #picture() {
    const shrink = Math.min(1, WIDEST / this.video.videoWidth);
    this.canvas.width = Math.round(this.video.videoWidth * shrink);
    this.canvas.height = Math.round(this.video.videoHeight * shrink);
    this.canvas.getContext("2d").drawImage(this.video, 0, 0, this.canvas.width, this.canvas.height);
    return new Promise((done) => this.canvas.toBlob(done, "image/jpeg", 0.9));
  }
}
