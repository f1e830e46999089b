// Curves by uPlot, and the bars of a step's phases.
import {h, number, svg} from "./dom.js";

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const PALETTE = ["--line-1", "--line-2", "--line-3", "--line-4"];

/** Draw series {name: [[step, value, low, high], …]} into a card; returns {update, close}. */
export function chart(title, names) {
  const body = h("div.plot");
  const card = h("figure.card", {"data-chart": title}, h("figcaption", {}, title), body);
  let plot = null;
  let last = {};

  function draw() {
    plot?.destroy();
    plot = null;
    const there = names.filter((name) => last[name]?.length);
    card.hidden = !there.length;
    if (!there.length || !body.clientWidth) return;
    const series = [{label: "step", value: (_, step) => step ?? Math.max(...there.map((name) => last[name].at(-1)[0]))}];
    const bands = [];
    const tables = there.map((name, at) => {
      const points = last[name];
      const line = color(PALETTE[at % PALETTE.length]);
      const banded = points.some((point) => point[2] !== null);
      const few = points.length < 40;
      series.push({label: name, stroke: line, width: 2, spanGaps: true, points: {show: few, size: 5, fill: line}, value: (_, value) => said(value, points, banded)});
      if (banded) {
        const first = series.length;
        const edge = {class: "edge", stroke: "transparent", spanGaps: true, points: {show: false}};
        series.push({...edge, label: "low"}, {...edge, label: "high"});
        bands.push({series: [first + 1, first], fill: `${line}2e`});
      }
      const columns = banded ? [0, 1, 2, 3] : [0, 1];
      return columns.map((column) => points.map((point) => point[column]));
    });
    const axis = {stroke: color("--quiet"), grid: {stroke: color("--edge"), width: 1}, ticks: {show: false}, font: "11px system-ui"};
    plot = new uPlot({
      width: body.clientWidth, height: 170, series, bands,
      scales: {x: {time: false}},
      axes: [{...axis, size: 26, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 1e5]}, {...axis, size: 52, values: (_, all) => all.map((v) => number(v))}],
      cursor: {points: {size: 6}},
    }, tables.length > 1 ? uPlot.join(tables) : tables[0], body);
    card.dataset.points = String(Math.max(...there.map((name) => last[name].length)));
  }

  const resize = new ResizeObserver(() => {
    if (plot ? plot.width !== body.clientWidth : body.clientWidth) draw();
  });
  resize.observe(body);
  document.addEventListener("themechange", draw);
  return {
    card,
    update(series) { last = series; card.hidden = false; draw(); },
    close() { resize.disconnect(); document.removeEventListener("themechange", draw); plot?.destroy(); },
  };
}

/** The value under the cursor, or the last one; with its interval if it has one. */
function said(value, points, banded) {
  const point = (value === null || value === undefined ? null : points.find((each) => each[1] === value)) ?? points.at(-1);
  return banded && point[2] !== null ? `${number(point[1])} (${number(point[2])} – ${number(point[3])})` : number(point[1]);
}

export const PHASES = ["sync", "collect", "learn", "other", "evaluate"];
const STEPS = 60;

/** Turn series of seconds into rows {step, sync, collect, learn, other, evaluate, inside}, one per step. */
export function phases(series) {
  const rows = new Map();
  for (const [name, points] of Object.entries(series)) {
    if (!name.startsWith("seconds/")) continue;
    const part = name.slice(8);
    for (const [step, value] of points) {
      if (!rows.has(step)) rows.set(step, {step, inside: Object.create(null)});
      const row = rows.get(step);
      if (part === "step") row.whole = value;
      else if (PHASES.includes(part)) row[part] = value;
      else row.inside[part] = value;
    }
  }
  const all = [...rows.values()].sort((a, b) => a.step - b.step).filter((row) => row.step > 0 || row.evaluate);
  for (const row of all) {
    const known = (row.sync ?? 0) + (row.collect ?? 0) + (row.learn ?? 0);
    row.other = Math.max(0, (row.whole ?? known) - known);
    row.total = known + row.other + (row.evaluate ?? 0);
  }
  return all;
}

const median = (values) => {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : 0;
};

/** Say how long a step took, and which phase makes it slower or faster than usual. */
export function explained(rows, row) {
  const usual = Object.fromEntries(PHASES.map((part) => [part, median(rows.map((each) => each[part] ?? 0))]));
  const whole = median(rows.map((each) => each.total));
  const largest = PHASES.reduce((a, b) => ((row[a] ?? 0) >= (row[b] ?? 0) ? a : b));
  const share = row.total ? Math.round((100 * (row[largest] ?? 0)) / row.total) : 0;
  const parts = [`Step ${row.step} took ${number(row.total)} s, of which ${largest} is ${share} %.`];
  const differing = PHASES.reduce((a, b) => ((row[a] ?? 0) - usual[a] >= (row[b] ?? 0) - usual[b] ? a : b));
  const more = (row[differing] ?? 0) - usual[differing];
  if (rows.length > 2 && row.total > 1.2 * whole) {
    parts.push(`That is ${number(row.total / whole, 2)} times the median of ${number(whole)} s, and ${differing} took ${number(more)} s longer than usual.`);
  } else if (rows.length > 2) parts.push(`The median is ${number(whole)} s.`);
  const inside = Object.entries(row.inside);
  if (inside.length) parts.push(`Parts: ${inside.map(([name, value]) => `${name} ${number(value)} s`).join(", ")}.`);
  return parts.join(" ");
}

/** Draw the last steps as stacked bars. */
export function phaseBars(rows, chosen, choose) {
  const shown = rows.slice(-STEPS);
  const top = Math.max(...shown.map((row) => row.total), 1e-9);
  const width = 720, height = 150, slot = width / Math.max(shown.length, 12), bar = Math.max(2, slot - 2);
  const drawing = svg("svg", {viewBox: `0 0 ${width} ${height + 18}`, class: "phases", role: "img", "aria-label": "Seconds of each step by phase"});
  shown.forEach((row, at) => {
    let y = height;
    const group = svg("g", {class: row.step === chosen ? "chosen" : "", onclick: () => choose(row.step)});
    group.append(svg("rect", {x: at * slot, y: 0, width: slot, height: height + 18, class: "slot"}));
    for (const part of PHASES) {
      const size = (height * (row[part] ?? 0)) / top;
      y -= size;
      group.append(svg("rect", {x: at * slot + 1, y, width: bar, height: size, class: part}));
    }
    group.append(svg("title", {}, `step ${row.step}: ${number(row.total)} s`));
    if (shown.length <= 20 || at % 10 === 0) group.append(svg("text", {x: at * slot + slot / 2, y: height + 13, "text-anchor": "middle"}, String(row.step)));
    drawing.append(group);
  });
  return drawing;
}
