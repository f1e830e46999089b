// Two runs on the same tasks: verdict with its interval, and the tasks on which they differ.
import {address, badge, h, number, percent, visible} from "./dom.js";
import {get} from "./source.js";

const RESULTS = {lost: "solved more often by the baseline", gained: "solved more often by the other", same: "the same"};
const STEPS = ["a_from", "a_to", "b_from", "b_to"];

export async function comparePage(place, {parameters}) {
  const runs = (await get("api/runs")).filter((run) => run.stores.length);
  if (!runs.length) throw new Error("No run here keeps episodes, so there is nothing to compare.");
  const query = {...parameters};
  // By default the newest run with the newest other one of its environment, which is then the baseline.
  const known = runs.find((run) => run.id === (query.a ?? query.b)) ?? runs[0];
  const other = (runs.find((run) => run.id !== known.id && run.env === known.env) ?? runs.find((run) => run.id !== known.id) ?? known).id;
  query.b ??= query.a ? other : known.id;
  query.a ??= other;
  for (const side of ["a", "b"]) query[`${side}_store`] ??= runs.find((run) => run.id === query[side])?.stores[0] ?? "";
  const body = h("div");
  const steps = h("span.range");
  let asked = 0;
  place.append(h("div.bar", {}, h("h1", {}, "Compare"), side("a", "Baseline"), h("span", {}, "with"), side("b", "Other run"),
    h("button", {type: "button", onclick: swap}, "Swap")), steps, body);

  function side(name, label) {
    const options = runs.flatMap((run) => run.stores.map((store) =>
      h("option", {value: `${run.id} ${store}`}, visible(run.stores.length > 1 ? `${run.name}: ${store.replace("_", " ")}` : run.name))));
    const list = h("select", {"aria-label": label, "data-side": name, onchange: () => {
      [query[name], query[`${name}_store`]] = list.value.split(" ");
      for (const each of STEPS) if (each.startsWith(name)) delete query[each];
      draw();
    }}, options);
    list.value = `${query[name]} ${query[`${name}_store`]}`;
    return list;
  }

  function swap() {
    for (const name of ["", "_store", "_from", "_to"]) [query[`a${name}`], query[`b${name}`]] = [query[`b${name}`], query[`a${name}`]];
    for (const name of ["a", "b"]) place.querySelector(`[data-side=${name}]`).value = `${query[name]} ${query[`${name}_store`]}`;
    draw();
  }

  /** Fields for the training steps of a side: the episodes of a range of checkpoints. */
  function ranges() {
    const training = (name) => runs.find((run) => run.id === query[name])?.kind === "training" && query[`${name}_store`] === "training_episodes";
    const labels = {a_from: "Baseline from step", a_to: "to", b_from: "Other from step", b_to: "to"};
    steps.replaceChildren(...STEPS.filter((name) => training(name[0])).map((name) => {
      const input = h("input", {type: "number", min: 0, step: 1, placeholder: labels[name], "aria-label": `${name[0] === "a" ? "Baseline" : "Other"} ${name.endsWith("from") ? "from" : "to"} step`,
        value: query[name] ?? "", "data-filter": name, onchange: () => { query[name] = input.value.trim(); draw({again: false}); }});
      return input;
    }));
  }

  async function draw({again = true} = {}) {
    const now = ++asked;
    history.replaceState(null, "", address("#/compare", query));
    if (again) ranges();
    body.dataset.loaded = "";
    try {
      const found = await get("api/compare", query);
      if (now !== asked) return;
      body.replaceChildren(...(found.problem ? [h("p.problem", {}, visible(found.problem))] : drawn(found, query)));
    } catch (error) {
      if (now !== asked) return;
      body.replaceChildren(h("p.problem", {}, visible(error.message)));
    }
    body.dataset.loaded = "yes";
  }

  await draw();
  return {trail: [["compare"]], up: "#/"};
}

function drawn(found, query) {
  const {a, b, verdict, notes, shared_tasks: shared} = found.comparison;
  const {gained = 0, lost = 0, same = 0} = found.counts;
  const rows = h("tbody");
  const show = h("select", {"aria-label": "Tasks to show", onchange: list},
    h("option", {value: ""}, "All tasks"), Object.entries(RESULTS).map(([value, text]) => h("option", {value}, `${value}: ${text}`)));

  function list() {
    rows.replaceChildren(...found.tasks.filter((task) => !show.value || task.result === show.value).map((task, at) => row(task, at, query)));
  }

  list();
  return [
    h("p.verdict", {"data-verdict": ""}, visible(verdict)),
    ...notes.map((note) => h("p.quiet", {}, visible(note))),
    h("div.scroll", {tabindex: 0, role: "region", "aria-label": "Differences"}, h("table", {}, h("thead", {}, h("tr", {}, ["Quantity", a, b, "Second minus first", "Verdict"].map((text) => h("th", {}, visible(text))))),
      h("tbody", {}, found.differences.map(quantity)))),
    h("div.bar", {}, h("h2", {}, "Tasks"), show, h("span.quiet", {role: "status", "data-counts": ""},
      `${shared} shared tasks: ${gained} gained, ${lost} lost, ${same} the same.${found.more ? ` The first ${found.tasks.length} are listed.` : ""}`)),
    h("div.scroll", {}, h("table", {}, h("thead", {}, h("tr", {}, [["Result"], ["Task"], ["Level", "number"], ["Split", "wide"], [a, "number"], [b, "number"], ["Reward", "number wide"]].map(([text, kind = ""]) => h("th", {class: kind}, visible(text))))), rows)),
  ];
}

function quantity(each) {
  const form = each.rate ? percent : number;
  const [value, low, high] = each.difference;
  const signed = (x) => (x === null ? "?" : `${x > 0 ? "+" : ""}${each.rate ? (100 * x).toFixed(1) : number(x)}`.replace("-", "−"));
  return h("tr", {}, h("td", {}, visible(each.name)), h("td", {}, form(each.a)), h("td", {}, form(each.b)),
    h("td", {}, `${signed(value)} (${signed(low)} – ${signed(high)})${each.rate ? " points" : ""}`, h("span.quiet", {}, each.paired ? " paired" : " independent")),
    h("td", {}, visible(each.verdict)));
}

function row(task, at, query) {
  const kind = {lost: "failed", gained: "finished", same: "stored"}[task.result];
  const href = address("#/pair", {a: query.a, a_store: query.a_store, a_episode: task.a.episode.toWellFormed(), b: query.b, b_store: query.b_store, b_episode: task.b.episode.toWellFormed()});
  const solved = (side) => h("td.number", {}, side.played === 1 ? (side.solved ? "solved" : "not solved") : `${side.solved} of ${side.played}`);
  const label = badge(kind);
  label.textContent = task.result;
  return h("tr", {"data-item": at}, h("td", {}, label),
    h("td.name", {}, h("a", {href}, visible(`${task.template} · seed ${task.seed}`))), h("td.number", {}, task.level), h("td.wide", {}, visible(task.split)),
    solved(task.a), solved(task.b), h("td.number.wide", {}, `${number(task.a.reward)} → ${number(task.b.reward)}`));
}
