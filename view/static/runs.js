// The list of runs, as it changes.
import {ago, badge, h, number, percent, visible} from "./dom.js";
import {follow, get} from "./source.js";

export async function runsPage(place) {
  let runs = await get("api/runs");
  const search = h("input", {type: "search", placeholder: "Search runs", "aria-label": "Search runs", "data-search": "", oninput: draw});
  const count = h("span.quiet");
  const table = h("div.scroll");
  place.append(h("div.bar", {}, h("h1", {}, "Runs"), search, count, h("a.button", {href: "#/compare"}, "Compare")), table);

  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = runs.filter((run) => words.every((w) => `${run.name} ${run.env} ${run.policy} ${run.state}`.toLowerCase().includes(w)));
    const selected = table.querySelector(".selected")?.dataset.item;
    if (!runs.length) {
      table.replaceChildren(h("p.empty", {}, "There is no run yet. It appears here when it begins: `turnwise train …` and `turnwise eval …` write below runs/."));
      return;
    }
    count.textContent = shown.length === runs.length ? `${runs.length}` : `${shown.length} of ${runs.length}`;
    const head = ["State", "Run", "Algorithm or policy", "Environment", "Step", "Success", "Evaluation", "Changed"];
    const numbers = new Set(["Step", "Success", "Evaluation", "Changed"]);
    table.replaceChildren(h("table", {},
      h("thead", {}, h("tr", {}, head.map((text) => h(`th${numbers.has(text) ? ".number" : ""}`, {}, text)))),
      h("tbody", {}, shown.map(row))));
    for (const each of table.querySelectorAll("[data-item]")) each.classList.toggle("selected", each.dataset.item === selected);
  }

  draw();
  return {close: follow("api/live", {runs: (found) => { runs = found; draw(); }})};
}

function row(run) {
  const numbers = run.numbers ?? {};
  const target = run.kind === "training" ? `#/run/${run.id}` : `#/run/${run.id}/episodes`;
  const step = run.step === null ? "" : run.steps ? `${run.step} / ${run.steps}` : `${run.step}`;
  return h("tr", {"data-item": run.id},
    h("td", {}, badge(run.state)),
    h("td.name", {}, h("a", {href: target}, visible(run.name)), run.problem && h("p.problem.small", {}, visible(run.problem))),
    h("td", {}, visible(run.policy)),
    h("td", {}, visible(run.env)),
    h("td.number", {}, step, run.state === "running" && run.steps && h("progress", {value: run.step ?? 0, max: run.steps, "aria-label": "steps done"})),
    h("td.number", {}, "success" in numbers ? percent(numbers.success) : "return" in numbers ? number(numbers.return) : ""),
    h("td.number", {}, "eval/success" in numbers ? percent(numbers["eval/success"]) : ""),
    h("td.number.quiet", {}, ago(run.updated)));
}
