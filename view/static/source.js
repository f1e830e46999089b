// Where the pages' data comes from: the viewer that runs. An export has exported.js in its place.
import {address, notice} from "./dom.js";

/** Whether a viewer answers, which can search texts and follow a run. */
export const live = true;

/** Fetch JSON, or throw an Error with the server's line. */
export async function get(path, parameters = {}, signal = undefined) {
  const answer = await fetch(address(path, parameters), {signal});
  let body = null;
  try { body = await answer.json(); } catch { /* not JSON: said below */ }
  if (!answer.ok) throw new Error(typeof body?.detail === "string" ? body.detail : `the viewer answered ${answer.status}; is it still running?`);
  return body;
}

let asked = null;

/** What the viewer lets its pages write: {play, annotate, key}. */
export const writing = () => (asked ??= get("api/writing"));

/** Send JSON, or throw an Error with the server's line. */
export async function post(path, content) {
  const {key} = await writing();
  const answer = await fetch(path, {method: "POST", headers: {"content-type": "application/json", "x-turnwise-key": key ?? ""}, body: JSON.stringify(content)});
  let body = null;
  try { body = await answer.json(); } catch { /* not JSON: said below */ }
  if (!answer.ok) throw new Error(typeof body?.detail === "string" ? body.detail : `the viewer refused this with ${answer.status}`);
  return body;
}

/** Follow server-sent events while the page is visible: browsers allow few connections. Returns a function to stop. */
export function follow(path, handlers) {
  let source = null;
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource(path);
    for (const [name, handler] of Object.entries(handlers)) {
      if (name === "open") source.onopen = handler;
      else source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
    source.onerror = () => notice("The viewer does not answer; trying again.");
  };
  const close = () => { source?.close(); source = null; };
  const change = () => (document.hidden ? close() : open());
  document.addEventListener("visibilitychange", change);
  open();
  return () => { document.removeEventListener("visibilitychange", change); close(); };
}
