// Filters that a reader named, kept in this browser; each is a link to the same filters in the store at hand.
import {h, notice, visible} from "./dom.js";

const KEY = "filters", MOST = 100, LONGEST = 80;

/** Pairs of a name and a filter, in the order of saving; what is no such pair is left out. */
function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return found.filter(([name, filter]) => typeof name === "string" && filter !== null && typeof filter === "object");
  } catch { return []; }
}

function write(all) {
  try { localStorage.setItem(KEY, JSON.stringify(all)); } catch { notice("This browser keeps nothing for this page; bookmark the link."); }
}

/**
 * A folded list of the saved filters, with a field to save the present one.
 * now() returns the filter at hand; link(filter) its address.
 */
export function savedFilters(now, link) {
  const list = h("ul", {"aria-label": "Saved filters"});
  const heading = h("summary");
  const name = h("input", {type: "text", placeholder: "Name of this filter", "aria-label": "Name of this filter", maxlength: LONGEST});
  const form = h("form.bar", {onsubmit: save}, name, h("button", {type: "submit"}, "Save filter"));

  function save(event) {
    event.preventDefault();
    const called = name.value.trim();
    if (!called) return;
    write([...read().filter(([other]) => other !== called), [called, now()]].slice(-MOST));
    name.value = "";
    draw();
  }

  function draw() {
    const all = read();
    heading.textContent = `Saved filters (${all.length})`;
    list.replaceChildren(...all.map(([called, filter]) => h("li", {}, h("a", {href: link(filter)}, visible(called)), " ",
      h("button", {type: "button", "aria-label": `Delete ${visible(called)}`, onclick: () => { write(read().filter(([other]) => other !== called)); draw(); }}, "Delete"))));
  }

  draw();
  return h("details.records", {}, heading, list, form);
}
