// Recordings that tabs of this page made; the Replay tab may be built only after some of them.

const made = [];
let tell = () => {};

/** A tab made a recording {name, session}. */
export function recorded(one) {
  made.push(one);
  tell(one);
}

/** Call this with every recording, those that are there already included. */
export function onRecorded(offer) {
  tell = offer;
  made.forEach(offer);
}
