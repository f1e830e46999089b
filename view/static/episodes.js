// The episodes of a store: filters in the address, sorting, paging.
import {address, badge, h, notice, number, percent, seconds, verdict, visible} from "./dom.js";
import {savedFilters} from "./saved.js";
import {follow, get, live} from "./source.js";

const LIMIT = 50;
const OFFERED = 100;  // the server names at most as many values of a column
const COLUMNS = [
  ["", "Verdict"], ["episode_id", "Episode"], ["outcome", "Outcome"], ["total_reward", "Reward"], ["turns", "Turns"],
  ["level", "Level"], ["split", "Split"], ["template", "Template"], ["step", "Step"], ["seconds", "Time"],
];
const NUMBERS = new Set(["total_reward", "turns", "level", "step", "seconds"]);
const SOLVED = {true: "Solved: yes", false: "Solved: no"};
const WIDE = new Set(["split", "template", "step", "seconds"]);

export async function episodesPage(place, {id, parameters}) {
  const run = await get(`api/runs/${id}`);
  if (!run.stores.length) throw new Error(run.problem || "This run keeps no episodes. Training runs do with keep_episodes = \"sample\" or \"all\".");
  const query = {store: run.stores[0], ...parameters};
  const compare = address("#/compare", {b: id, b_store: query.store});
  const choices = h("div.filters");
  const status = h("p.quiet", {role: "status"});
  const indexed = h("span.quiet.small", {"data-indexing": ""});
  const problems = h("div");
  const table = h("div.scroll");
  const pager = h("div.bar");
  let latest = null;
  let abort = new AbortController();
  let timer = 0;
  place.append(
    h("div.bar", {}, h("h1", {}, "Episodes"), run.stores.length > 1 && select("store", run.stores, "Store"), badge(run.state),
      h("a.button", {href: `#/run/${id}`}, "Run"), h("a.button", {href: compare}, "Compare"), h("button", {type: "button", onclick: copy}, "Copy link")),
    choices, savedFilters(filter, (saved) => address(`#/run/${id}/episodes`, {...saved, store: query.store})), problems, status, indexed, table, pager);

  function filter() {
    const {store, offset, ...rest} = query;
    return rest;
  }

  function set(changes, {reset = true} = {}) {
    Object.assign(query, changes, reset ? {offset: ""} : {});
    history.replaceState(null, "", address(`#/run/${id}/episodes`, query));
    load();
  }

  function select(name, values, label) {
    const list = h("select", {"aria-label": label, onchange: () => set({[name]: list.value})},
      name !== "store" && h("option", {value: ""}, `${label}: all`),
      values.map((each) => (Array.isArray(each) ? h("option", {value: each[0]}, `${visible(each[0])} (${each[1]})`) : h("option", {value: each}, name === "success" ? SOLVED[each] : visible(each)))));
    list.value = query[name] ?? "";
    return list;
  }

  function field(name, label, type = "number") {
    const input = h("input", {type, placeholder: label, "aria-label": label, value: query[name] ?? "", step: "any", "data-filter": name, oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => set({[name]: input.value.trim()}), 250);
    }});
    if (name === (live ? "text" : "id")) input.dataset.search = "";
    return input;
  }

  /** A field for a column with more values than the server names; it finds the whole value only. */
  function exactly(name, values, label) {
    const input = h("input", {type: "search", list: `values-${name}`, placeholder: `${label}, in full`, "aria-label": label, value: query[name] ?? "", "data-filter": name,
      onchange: () => set({[name]: input.value})});
    return h("span", {}, input, h("datalist", {id: `values-${name}`}, values.map(([value]) => h("option", {value}))));
  }

  function filters() {
    const some = (name) => Object.entries(latest.choices[name]).filter(([value]) => value !== "None");
    const several = ["outcome", "split", "level", "template", "env_id"].filter((name) => some(name).length > 1 || query[name]);
    choices.replaceChildren(
      ...(live ? [field("text", "Text of the conversation", "search"), field("tool", "Tool called, in full", "search")] : []), field("id", "Episode or group id", "search"),
      select("success", ["true", "false"], "Solved"),
      ...several.map((name) => {
        const few = Object.keys(latest.choices[name]).length < OFFERED;
        return (few ? select : exactly)(name, some(name), name === "env_id" ? "Environment" : name[0].toUpperCase() + name.slice(1));
      }),
      h("span.range", {}, field("total_reward_min", "Reward from"), field("total_reward_max", "to")),
      h("span.range", {}, field("turns_min", "Turns from"), field("turns_max", "to")),
      h("button", {type: "button", onclick: () => { for (const key of Object.keys(query)) if (key !== "store") delete query[key]; set({}); filters(); }}, "Clear"));
  }

  /** Show what is found at once; while the viewer reads or searches more files, go on in the background. */
  async function load() {
    abort.abort();
    abort = new AbortController();
    const {signal} = abort;
    const ask = async () => {
      const found = await get(`api/runs/${id}/episodes`, {limit: LIMIT, ...query}, signal);
      draw(found);
      return (found.unsearched || found.unread) && !signal.aborted;
    };
    const failed = (error) => { if (error.name !== "AbortError") problems.replaceChildren(h("p.problem", {}, visible(error.message))); };
    const rest = async () => { while (await ask()); };
    try {
      (await ask() ? rest() : Promise.resolve()).then(() => indexing(signal)).catch(failed);
    } catch (error) { failed(error); }
  }

  /** Let the viewer index the texts of a large store before anybody searches, and say how far it is. */
  async function indexing(signal) {
    while (live && !signal.aborted) {
      const share = (await get(`api/runs/${id}/indexing`, {store: query.store}, signal)).indexed;
      indexed.textContent = share === null ? "" : `Indexing texts, so that searches are fast: ${percent(share)}`;
      if (share === null) return;
      await new Promise((go) => setTimeout(go, 1000));
    }
  }

  function draw(found) {
    const first = latest === null, wasReading = latest?.unread > 0;
    latest = found;
    if (first || (wasReading && !found.unread)) filters();  // the choices are known when all is read
    problems.replaceChildren(...found.problems.map((each) => h("p.problem", {}, visible(each))));
    const solved = found.rows.filter((row) => row.success).length;
    status.textContent = `${found.total.toLocaleString("en")} of ${found.episodes.toLocaleString("en")} episodes`
      + (found.unread ? ` · reading ${found.unread.toLocaleString("en")} more files …` : "")
      + (found.unsearched ? ` · searching ${found.unsearched.toLocaleString("en")} more …` : "")
      + (found.rows.length ? ` · ${percent(solved / found.rows.length)} solved on this page` : "");
    const selected = table.querySelector(".selected")?.dataset.item;
    const shown = COLUMNS.filter(([name]) => name !== "step" || found.rows.some((row) => row.step !== null));
    table.replaceChildren(h("table", {},
      h("thead", {}, h("tr", {}, shown.map(head))),
      h("tbody", {}, found.rows.map((row) => line(row, shown)))));
    table.querySelector(`[data-item="${CSS.escape(selected ?? "")}"]`)?.classList.add("selected");
    const offset = Number(query.offset || 0);
    pager.replaceChildren(
      h("button", {type: "button", disabled: offset === 0, onclick: () => turn(-1)}, "Previous"),
      h("span.quiet", {}, found.total ? `${offset + 1} – ${Math.min(offset + LIMIT, found.total)}` : "none"),
      h("button", {type: "button", disabled: offset + LIMIT >= found.total, onclick: () => turn(1)}, "Next"));
    table.dataset.loaded = String(Number(table.dataset.loaded ?? 0) + 1);
  }

  function head([name, label]) {
    const sorted = query.sort?.replace("-", "") === name && name ? (query.sort.startsWith("-") ? "descending" : "ascending") : null;
    const next = sorted === "descending" ? name : `-${name}`;
    const classes = `th${NUMBERS.has(name) ? ".number" : ""}${WIDE.has(name) ? ".wide" : ""}`;
    return h(classes, {"aria-sort": sorted}, name ? h("button.sort", {type: "button", onclick: () => set({sort: next})}, label, sorted ? (sorted === "descending" ? " ↓" : " ↑") : "") : label);
  }

  function line(row, shown) {
    const href = address(`#/run/${id}/episode`, {store: query.store, episode: row.episode_id.toWellFormed()});
    const cells = {
      "": verdict(row),
      episode_id: [h("a", {href}, visible(row.episode_id)), row.parent !== null && h("span.badge.stored", {title: "a fork"}, "fork"), row.error && h("p.problem.small", {}, visible(row.error).slice(0, 200))],
      outcome: row.outcome.replace("_", " "), total_reward: number(row.total_reward), turns: row.turns, level: row.level ?? "–",
      split: visible(row.split), template: visible(row.template), step: row.step ?? "–", seconds: seconds(row.seconds),
    };
    return h("tr", {"data-item": row.episode_id}, shown.map(([name]) =>
      h(`td${NUMBERS.has(name) ? ".number" : ""}${WIDE.has(name) ? ".wide" : ""}${name === "episode_id" ? ".name" : ""}`, {}, cells[name])));
  }

  function turn(by) {
    const offset = Number(query.offset || 0) + by * LIMIT;
    if (offset >= 0 && (!latest || offset < latest.total)) set({offset: offset || ""}, {reset: false});
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(location.href);
      notice("The link holds the filters. It needs the viewer's token in a new browser.");
    } catch {
      notice("The address bar holds the filters; copy it.");
    }
  }

  await load();
  let seen = run.updated;
  const stop = follow(`api/runs/${id}/live`, {run: (now) => { if (now.updated !== seen) { seen = now.updated; load(); } }});
  return {
    trail: [[run.name, `#/run/${id}`], ["episodes"]],
    up: run.kind === "training" ? `#/run/${id}` : "#/",
    compare,
    keys: {n: () => turn(1), p: () => turn(-1)},
    close: () => { stop(); abort.abort(); clearTimeout(timer); },
  };
}
