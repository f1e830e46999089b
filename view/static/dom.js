// Elements and texts. Text of runs and episodes only ever becomes text nodes, never markup.

/** Create an element: h("a.row", {href: "#/"}, "text", child). */
export function h(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && typeof value === "boolean") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Create an SVG element. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Make characters visible that would act on the page or the reader: controls, escapes, directions. */
export function visible(text) {
  return String(text)
    .replace(/\r\n/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
      (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

/** Build "path?a=b" without empty values. */
export function address(path, parameters = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null && value !== "") query.set(key, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

export function notice(text) {
  const place = document.getElementById("notice");
  place.textContent = text;
  clearTimeout(notice.timer);
  if (text) notice.timer = setTimeout(() => { place.textContent = ""; }, 4000);
}

export function number(value, digits = 3) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return String(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  return String(Number(value.toPrecision(digits)));
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value > 0 && value < 0.1) return `${number(1000 * value, 2)} ms`;
  if (value < 60) return `${number(value)} s`;
  return value < 3600 ? `${(value / 60).toFixed(1)} min` : `${(value / 3600).toFixed(1)} h`;
}

export function ago(time) {
  if (!time) return "–";
  const past = Date.now() / 1000 - time;
  if (past < 60) return "now";
  if (past < 3600) return `${Math.round(past / 60)} min ago`;
  return past < 86400 ? `${Math.round(past / 3600)} h ago` : new Date(time * 1000).toISOString().slice(0, 10);
}

export const badge = (state) => h(`span.badge.${state}`, {}, state);

/** A verdict in color and in words. */
export function verdict(episode) {
  if (episode.success === null || episode.success === undefined) return h("span.badge.damaged", {}, "not scored");
  return episode.success ? h("span.badge.finished", {}, "solved") : h("span.badge.failed", {}, "not solved");
}
