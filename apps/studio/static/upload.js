// Bringing a file to a session: its size is checked before it travels.

import { bytes } from "./dom.js";

/** The name that the server gave to the file; what is refused throws a sentence. */
export async function upload(model, file) {
  if (!model?.session) throw new Error("This page is not connected yet.");
  if (file.size > model.upload) {
    throw new Error(`${file.name} has ${bytes(file.size)}; this studio takes ${bytes(model.upload)} at most.`);
  }
  const answer = await fetch(`/upload/${model.session}`, { method: "POST", body: file }).catch(() => null);
  if (!answer) throw new Error("The server does not answer any more.");
  if (!answer.ok) throw new Error(await why(answer));
  return (await answer.json()).name;
}

/** The sentence in an answer that refuses. */
export async function why(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).why;
  } catch {
    return text;
  }
}
