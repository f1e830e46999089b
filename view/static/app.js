// Router, keys and theme. A page is a function (main, route) that returns {up, close, keys}.
import {h, notice} from "./dom.js";
import {runsPage} from "./runs.js";
import {runPage} from "./run.js";
import {episodesPage} from "./episodes.js";
import {episodePage} from "./episode.js";
import {groupPage} from "./group.js";
import {comparePage} from "./compare.js";
import {pairPage} from "./pair.js";
import {playPage} from "./play.js";
import {writing} from "./source.js";

const main = document.getElementById("main");
let page = {};
let turn = 0;

function route() {
  const [path, query = ""] = location.hash.replace(/^#/, "").split("?");
  const [kind = "", id = "", part = ""] = path.split("/").filter(Boolean);
  return {kind, id, part, parameters: Object.fromEntries(new URLSearchParams(query))};
}

function chosen({kind, part}) {
  if (kind !== "run") return {compare: comparePage, pair: pairPage, play: playPage}[kind] ?? runsPage;
  return {"": runPage, episodes: episodesPage, episode: episodePage, group: groupPage}[part] ?? runPage;
}

async function show() {
  const now = ++turn;
  page.close?.();
  page = {};
  const here = route();
  const place = h("div.page");
  main.replaceChildren(place);
  place.append(h("p.loading", {}, "Loading …"));
  try {
    const opened = await chosen(here)(place, here);
    if (now !== turn) return opened.close?.();
    page = opened;
    place.querySelector(":scope > .loading")?.remove();
    trail(opened.trail ?? []);
    document.title = ["Turnwise", ...(opened.trail ?? []).map(([text]) => text)].join(" · ");
    main.dataset.ready = location.hash || "#/";
  } catch (error) {
    if (now !== turn) return;
    trail([]);
    document.title = "Turnwise";
    place.replaceChildren(h("p.problem", {}, error.message));
    main.dataset.ready = location.hash || "#/";
  }
}

function trail(steps) {
  const links = steps.map(([text, href]) => [h("span.slash", {}, "/"), href ? h("a", {href}, text) : h("span", {}, text)]);
  document.getElementById("trail").replaceChildren(...links.flat());
}

const items = () => [...main.querySelectorAll("[data-item]")].filter((each) => each.offsetParent !== null);

function move(by) {
  const all = items();
  if (!all.length) return;
  const at = all.findIndex((each) => each.classList.contains("selected"));
  all[at]?.classList.remove("selected");
  const next = all[Math.max(0, Math.min(all.length - 1, at < 0 ? (by > 0 ? 0 : all.length - 1) : at + by))];
  next.classList.add("selected");
  next.scrollIntoView({block: "nearest"});
}

const THEMES = ["system", "dark", "light"];

function changeTheme() {
  const root = document.documentElement;
  const next = THEMES[(THEMES.indexOf(root.dataset.theme) + 1) % THEMES.length];
  root.dataset.theme = next;
  localStorage.setItem("theme", next);
  notice(`Theme: ${next}`);
  document.dispatchEvent(new Event("themechange"));
}

const keys = document.getElementById("keys");
const ACTIONS = {
  j: () => move(1),
  k: () => move(-1),
  "/": () => main.querySelector("[data-search]")?.focus(),
  c: () => { location.hash = page.compare ?? "#/compare"; },
  t: changeTheme,
  "?": () => keys.showModal(),
  Enter: () => {
    const selected = main.querySelector("[data-item].selected");
    (selected?.querySelector("a[href]") ?? selected?.querySelector("summary"))?.click();
  },
  Escape: () => { if (page.up) location.hash = page.up; },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) return;
  const inField = event.target.matches("input, select, textarea");
  if (inField) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.matches("a, button, summary")) return;
  const action = page.keys?.[event.key] ?? ACTIONS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});

document.getElementById("theme").addEventListener("click", changeTheme);
document.getElementById("help").addEventListener("click", () => keys.showModal());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
writing().then(({play}) => { if (play) document.getElementById("theme").before(h("a.button", {href: "#/play"}, "Play")); }, () => {});
addEventListener("hashchange", show);
addEventListener("pagehide", () => page.close?.());
show();
