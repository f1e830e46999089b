// One run: state, live curves, phases of a step, meters, configuration and its difference to another run's.
import {address, ago, badge, h, number, percent, seconds, visible} from "./dom.js";
import {follow, get} from "./source.js";
import {PHASES, chart, explained, phaseBars, phases} from "./charts.js";

const CHARTS = [
  ["Success", ["success", "eval/success"]],
  ["Return", ["return", "eval/return"]],
  ["Loss", ["loss"]],
  ["Entropy, nats per token", ["entropy"]],
  ["KL from the sampling policy", ["kl_k3"]],
  ["Gradient norm", ["grad_norm"]],
  ["Turns", ["turns", "eval/turns"]],
  ["Sampled tokens per second of a step", ["tokens_per_second"]],
  ["Trained tokens per second of learning", ["perf/trained_tokens_per_second"]],
  ["Seconds per step", ["seconds/step"]],
  ["Idle share", ["idle/learner", "idle/policy"]],
];
const METERS = [
  ["seconds/step", "last step", seconds],
  ["tokens_per_second", "sampled tokens per second", number],
  ["perf/trained_tokens_per_second", "trained tokens per second of learning", number],
  ["perf/mfu", "of the GPU's peak", percent],
  ["perf/padding", "padding", percent],
  ["idle/learner", "learner idle", percent],
  ["idle/policy", "policy idle", percent],
  ["memory/rss_gib", "memory, GiB", number],
  ["memory/gpu_peak_gib", "GPU peak, GiB", number],
  ["unscored", "infrastructure failures", number],
  ["cut_actions", "actions cut", percent],
];

/** An object without inherited names: a metric may have any name, such as "constructor". */
const noSeries = () => Object.create(null);

export async function runPage(place, {id, parameters}) {
  const run = await get(`api/runs/${id}`);
  let series = noSeries();
  let chosenStep = null;
  let averaged = null;
  const top = h("div.facts");
  const meters = h("div.meters");
  const charts = CHARTS.map(([title, names]) => chart(title, names));
  const grid = h("div.charts", {}, charts.map((each) => each.card));
  const more = h("select", {"aria-label": "Add a chart", onchange: () => add(more.value)});
  const seeds = h("button", {type: "button", "aria-pressed": "false", onclick: average}, "Average over seeds");
  const seedNote = h("span.quiet");
  const phasePlace = h("section", {"aria-label": "Phases of a step"});
  const empty = h("p.quiet", {}, "There are no numbers yet. They appear here as soon as the run writes them.");
  place.append(
    h("div.bar", {}, h("h1", {}, visible(run.name)), top),
    run.kind === "training" ? [meters, h("div.bar", {}, h("h2", {}, "Curves"), more, seeds, seedNote), empty, grid, phasePlace].reduce((all, each) => (all.append(each), all), h("div")) : "",
    await configuration(id, run, parameters.other));

  function facts(now) {
    const of = now.steps ? `${now.step ?? 0} of ${now.steps} steps` : now.step !== null ? `${now.step} steps` : null;
    top.replaceChildren(...[
      badge(now.state), of && h("span", {}, of), now.policy && h("span", {}, visible(now.policy)),
      now.env && h("span", {}, visible(now.env)), h("span.quiet", {}, `changed ${ago(now.updated)}`),
      ...now.stores.map((store) => h("a.button", {href: address(`#/run/${id}/episodes`, {store})}, store === "." ? "episodes" : store.replace("_", " "))),
      now.stores.length > 0 && h("a.button", {href: address("#/compare", {b: id})}, "Compare"),
      now.problem && h("p.problem", {}, visible(now.problem)),
    ].filter(Boolean));
  }

  function add(name) {
    if (!name) return;
    const one = chart(name, [name]);
    charts.push(one);
    grid.append(one.card);
    one.update(series);
    more.value = "";
  }

  function draw() {
    empty.hidden = Object.keys(series).length > 0;
    charts.forEach((each) => each.update(averaged ?? series));
    const shown = new Set(charts.map((each) => each.card.dataset.chart).concat(CHARTS.flatMap(([, names]) => names)));
    more.replaceChildren(h("option", {value: ""}, "Add a chart …"),
      ...Object.keys(series).filter((name) => !shown.has(name)).sort().map((name) => h("option", {value: name}, visible(name))));
    meters.replaceChildren(...METERS.filter(([name]) => series[name]?.length).map(([name, label, form]) =>
      h("div.meter", {title: name}, h("b", {}, form(series[name].at(-1)[1])), h("span", {}, label))));
    drawPhases();
  }

  function drawPhases() {
    const rows = phases(series);
    phasePlace.hidden = !rows.length;
    if (!rows.length) return;
    const row = rows.find((each) => each.step === chosenStep) ?? rows.at(-1);
    const choose = (step) => { chosenStep = step; drawPhases(); };
    phasePlace.replaceChildren(
      h("h2", {}, "Why is this step slow?"),
      h("p", {"data-explained": ""}, explained(rows, row)),
      phaseBars(rows, row.step, choose),
      h("p.legend", {}, PHASES.map((part) => h(`span.key.${part}`, {}, `${part} ${number(row[part] ?? 0)} s`))));
  }

  async function average() {
    const on = seeds.getAttribute("aria-pressed") !== "true";
    seeds.setAttribute("aria-pressed", String(on));
    averaged = null;
    seedNote.textContent = "";
    if (on) {
      const found = await get(`api/runs/${id}/seeds`);
      if (found.runs.length > 1) averaged = Object.assign(noSeries(), found.series);
      seedNote.textContent = found.runs.length > 1
        ? `Mean of ${found.runs.length} runs with Student's 95 % interval, as of now`
        : "No other run here differs only in its seed.";
    }
    draw();
  }

  facts(run);
  const stop = follow(`api/runs/${id}/live`, {
    open: () => { series = noSeries(); },  // a new connection sends everything again
    run: facts,
    points: ({reset, series: added}) => {
      if (reset) series = noSeries();
      for (const [name, points] of Object.entries(added)) series[name] = (series[name] ?? []).concat(points);
      draw();
    },
  });
  return {trail: [[run.name]], up: "#/", compare: address("#/compare", run.stores.length ? {b: id} : {}), close: () => { stop(); charts.forEach((each) => each.close()); }};
}

async function configuration(id, run, wanted) {
  const about = run.about;
  const runs = (await get("api/runs")).filter((each) => each.id !== id);
  const body = h("div");
  const other = h("select", {"aria-label": "Compare the configuration with another run's", onchange: () => draw()},
    h("option", {value: ""}, "Compare with …"), runs.map((each) => h("option", {value: each.id}, visible(each.name))));
  if (wanted) other.value = wanted;

  async function draw() {
    if (!other.value) {
      body.replaceChildren(table(["setting", "value"], flat(about.config ?? {}).map(([key, value]) => [key, text(value)])));
      return;
    }
    try {
      const found = await get(`api/runs/${id}/difference`, {other: other.value});
      const name = runs.find((each) => each.id === other.value).name;
      body.replaceChildren(found.length
        ? table(["setting", run.name, name], found.map((row) => [row.key, text(row.this), text(row.other)]))
        : h("p.quiet", {}, "Both runs have the same settings."));
    } catch (error) {
      body.replaceChildren(h("p.problem", {}, error.message));
    }
  }

  await draw();
  const made = about.made ?? {};
  return h("details.config", {open: Boolean(wanted) || run.kind !== "training"},
    h("summary", {}, "Configuration"),
    about.problem && h("p.problem", {}, visible(about.problem)),
    made.command && h("p", {}, h("code", {}, visible(made.command)), h("span.quiet", {}, ` ${made.date ?? ""} ${made.commit ?? ""}`)),
    h("div.bar", {}, other), h("div.scroll", {tabindex: 0, role: "region", "aria-label": "Settings"}, body));
}

const text = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? visible(value) : JSON.stringify(value));

function flat(value, prefix = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return [[prefix, value]];
  return Object.entries(value).flatMap(([key, each]) => flat(each, prefix ? `${prefix}.${key}` : key));
}

function table(head, rows) {
  return h("table.settings", {}, h("thead", {}, h("tr", {}, head.map((each) => h("th", {}, visible(each))))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((each) => h("td", {}, visible(each)))))));
}
