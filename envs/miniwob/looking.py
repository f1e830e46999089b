"""Observations of MiniWoB pages: elements with positions, colors and texts, as upstream's driver reports them.

The tree of roles that describes other pages (``envs/web``) is not enough: tasks here ask for a red circle, an icon or a
position, all drawn with elements that have neither role nor name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..web.page import Node, Page, with_ids

WALK = """
() => {
  const kept = [], CLIP = 120;
  const SKIPPED = new Set(['query', 'query-wrap', 'reward-display', 'sync-task-cover', 'click-canvas']);
  const ALONE = new Set(['svg', 'canvas', 'img', 'tr', 'li', 'select', 'textarea', 'button', 'a']);
  const FIELD = new Set(['input', 'select', 'textarea']);
  const SHAPE = ['points', 'd', 'x1', 'y1', 'x2', 'y2', 'r'];
  const clean = text => text.replace(/\\s+/g, ' ').trim();
  const hex = color => {
    const part = color.match(/[\\d.]+/g);
    if (!part || (part.length > 3 && +part[3] === 0)) return '';
    return '#' + part.slice(0, 3).map(one => (+one).toString(16).padStart(2, '0')).join('');
  };
  const words = el => {
    const name = el.getAttribute('class') || '';
    return name.split(/\\s+/).filter(Boolean).slice(0, 3).join('.').slice(0, 40);
  };
  const role = (el, tag) => {
    if (tag === 'input') {
      const type = el.type;
      if (['button', 'submit', 'reset', 'image'].includes(type)) return 'button';
      return {checkbox: 'checkbox', radio: 'radio', number: 'spinbutton', range: 'slider'}[type] || 'textbox';
    }
    if (tag === 'select') return el.multiple || el.size > 1 ? 'listbox' : 'combobox';
    return {a: 'link', textarea: 'textbox', h1: 'heading', h2: 'heading', h3: 'heading', text: 'letters'}[tag] || tag;
  };
  const label = (el, tag) => {
    if (tag === 'input' && role(el, tag) === 'button') return el.value;
    const said = el.labels && el.labels.length ? [...el.labels[0].childNodes] : [];
    const label = clean(said.filter(one => !one.contains(el)).map(one => one.textContent).join(' '));
    return clean(label || el.getAttribute('aria-label') || el.alt || el.title || '');
  };
  const states = (el, tag, style, name, box, dx, dy, under) => {
    const marks = [`at=${Math.round(box.x + box.width / 2 + dx)},${Math.round(box.y + box.height / 2 + dy)}`];
    if (tag === 'input' && !['text', 'checkbox', 'radio', 'submit', 'button'].includes(el.type)) marks.push(el.type);
    if (el.placeholder) marks.push(`placeholder="${el.placeholder}"`);
    if (el.checked) marks.push('checked');
    if (el.disabled) marks.push('disabled');
    if (el.readOnly) marks.push('readonly');
    if (el === el.ownerDocument.activeElement && tag !== 'body' && tag !== 'iframe') marks.push('focused');
    const inside = el.ownerSVGElement;
    if ((!name && !FIELD.has(tag)) || inside) {
      marks.push(`size=${Math.round(box.width)}x${Math.round(box.height)}`);
      if (words(el)) marks.push(`class=${words(el)}`);
    }
    if (inside) {
      const fill = el.getAttribute('fill') || el.style.fill || hex(style.fill);
      if (fill && fill !== 'none') marks.push(`fill=${fill}`);
      for (const one of SHAPE) if (el.hasAttribute(one)) marks.push(`${one}="${el.getAttribute(one).slice(0, CLIP)}"`);
    } else {
      const ground = hex(style.backgroundColor);
      const plain = ['', under, '#efefef'];  // the last is a button's
      if (!plain.includes(ground)) marks.push(`background=${el.style.backgroundColor || ground}`);
    }
    return marks;
  };
  const walk = (el, dx, dy, under, hand) => {
    const tag = el.tagName.toLowerCase();
    if (SKIPPED.has(el.id) || ['script', 'style', 'noscript', 'head', 'defs', 'title'].includes(tag)) return [];
    const style = el.ownerDocument.defaultView.getComputedStyle(el);
    if (style.display === 'none') return [];
    const box = el.getBoundingClientRect(), seen = style.visibility !== 'hidden' && box.width > 1 && box.height > 1;
    if (tag === 'iframe') {
      const body = el.contentDocument && el.contentDocument.body;
      return body ? walk(body, dx + box.x + el.clientLeft, dy + box.y + el.clientTop, '', false) : [];
    }
    const ground = hex(style.backgroundColor) || under, pointer = style.cursor === 'pointer';
    const children = [];
    if (tag === 'select') {
      for (const one of el.options) {
        children.push({role: 'option', name: clean(one.text), ref: '', value: '', pointer: false, children: [],
                       states: one.selected ? ['selected'] : []});
      }
    } else if (tag !== 'textarea') {
      for (const child of el.childNodes) {
        if (child.nodeType === 3 && seen && clean(child.data)) children.push({role: 'text', name: clean(child.data)});
        else if (child.nodeType === 1) children.push(...walk(child, dx, dy, ground, pointer));
      }
    }
    if (!seen) return children;
    const leaf = !children.some(one => one.role !== 'text');
    const moved = /\\bui-(draggable|droppable|sortable|resizable|slider|selectable)\\b/.test(el.className);
    const acts = (pointer && !hand) || el.tabIndex >= 0 || el.hasAttribute('onclick') || moved;
    const boxed = tag === 'body' || (el.childElementCount > 0 && children.length === 0 && !acts);
    if (!leaf || boxed) { if (!(ALONE.has(tag) || acts) || tag === 'body') return children; }
    const text = leaf ? children.map(one => one.name).join(' ') : '';
    const name = label(el, tag) || (FIELD.has(tag) ? '' : text);
    const ref = String(kept.push(el) - 1);
    const value = ['checkbox', 'radio', 'button', 'submit'].includes(el.type) || tag === 'button' || tag === 'select'
      || tag === 'li' ? '' : (typeof el.value === 'string' ? el.value : '');
    return [{role: role(el, tag), name: name, ref: ref, value: value, pointer: pointer && !hand,
             states: states(el, tag, style, name, box, dx, dy, under),
             children: leaf && tag !== 'select' ? [] : children}];
  };
  return {nodes: walk(document.body, 0, 0, '', false), elements: kept, title: document.title};
}
"""
"""Returns the tree, and next to it the elements, indexed by ``ref``; it writes nothing into the page."""
FRAMES = """
(() => {
  const ask = window.requestAnimationFrame.bind(window), later = window.setTimeout.bind(window);
  const next = () => new Promise(done => { ask(done); later(done, 500); });
  const frames = window.turnwiseFrames = {asked: 0, next: next};
  window.requestAnimationFrame = work => { frames.asked++; return ask(work); };
})()
"""
"""Counts the frames that a page's scripts request, from before they run: a request means that something moves."""
STILL = (
    """
async times => {
  const walk = """
    + WALK
    + """, frames = window.turnwiseFrames;
  const whole = seen => JSON.stringify([frames.asked, seen.nodes, seen.title]);
  let seen = walk(), before;
  do {
    before = whole(seen);
    await frames.next();
    await frames.next();
    await new Promise(done => setTimeout(done));
    seen = walk();
  } while (whole(seen) !== before && --times > 0);
  return seen;
}
"""
)
"""Runs ``WALK`` until the page is at rest: two frames later it looks the same and has drawn nothing.

Time is counted in frames, however long they take on a busy machine. For a page that never rests, ``times`` is the most
looks.
"""
POINT = """
(el) => {
  if (!el.isConnected) return {why: 'it is no longer on the page'};
  if (el.scrollIntoViewIfNeeded) el.scrollIntoViewIfNeeded(); else el.scrollIntoView({block: 'center'});
  let dx = 0, dy = 0;
  for (let view = el.ownerDocument.defaultView; view.frameElement; view = view.parent) {
    const frame = view.frameElement, at = frame.getBoundingClientRect();
    dx += at.x + frame.clientLeft; dy += at.y + frame.clientTop;
  }
  const places = [0.5, 0.25, 0.75, 0.1, 0.9];
  const within = hit => hit && (hit === el || el.contains(hit));
  for (const box of el.getClientRects()) {
    for (const v of places) for (const u of places) {
      const x = box.x + box.width * u, y = box.y + box.height * v;
      if (within(el.ownerDocument.elementFromPoint(x, y))) return {x: x + dx, y: y + dy};
    }
  }
  const box = el.getBoundingClientRect();
  if (!box.width || !box.height) return {why: 'it cannot be seen'};
  const hit = el.ownerDocument.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
  if (hit && hit.contains(el)) return {x: box.x + box.width / 2 + dx, y: box.y + box.height / 2 + dy};
  return {why: hit ? 'something else covers all of it' : 'it is outside of the window'};
}
"""
"""Finds a point of an element that a click there reaches, in pixels of the window: widgets overlap for some seeds."""


def page_from(seen: Mapping[str, Any], url: str, picture: bytes = b"") -> Page:
    """Return the page that ``WALK`` has seen.

    Args:
        seen: the result of ``WALK``.
        url: URL of the page.
        ``picture``: screenshot, PNG, if there is one.
    """
    nodes = with_ids([_node(one) for one in seen["nodes"]], every=True)
    by_id = {node.id: node for top in nodes for node in top.walk() if node.ref}
    return Page(url, str(seen["title"]), nodes, picture=picture, by_id=by_id)


def _node(one: Mapping[str, Any]) -> Node:
    if one["role"] == "text":
        return Node("text", str(one["name"]))
    return Node(
        str(one["role"]),
        str(one["name"]),
        str(one["ref"]),
        str(one["value"]),
        tuple(one["states"]),
        pointer=bool(one["pointer"]),
        children=tuple(_node(child) for child in one["children"]),
    )
