// Where the pages' data comes from in an export: files of JSON in scripts, which pages at file:// may load, too.
import {h} from "./dom.js";

export const live = false;

export const writing = async () => ({play: null, annotate: false});

export async function post() {
  throw new Error("An export cannot be changed.");
}

const RANGES = ["total_reward", "turns", "level", "step", "seconds"];
const CHOICES = ["outcome", "split", "template", "env_id", "level"];
const waiting = new Map();
const known = new Map();
const policy = globalThis.trustedTypes?.createPolicy("turnwise", {createScriptURL: checked});

/** A file of the export, and nothing else. */
function checked(name) {
  if (!/^data\/[\w-]+(\/[\w-]+)*\.js$/.test(name)) throw new TypeError(`not a file of this export: ${name}`);
  return name;
}

globalThis.turnwiseData = (name, text) => waiting.get(name)?.(JSON.parse(text));

/** Read a file by its name below data/, once. */
function read(name) {
  if (!known.has(name)) {
    known.set(name, new Promise((resolve, reject) => {
      waiting.set(name, resolve);
      const script = h("script", {onerror: () => reject(new Error(`This export lacks the file data/${name}.js.`))});
      script.src = policy ? policy.createScriptURL(`data/${name}.js`) : checked(`data/${name}.js`);
      document.head.append(script);
    }));
  }
  return known.get(name);
}

/** A request as the name of a file: its parameters in the order of their names. */
function key(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return [path, ...given.map(([name, value]) => `${name}=${value}`).sort()].join("&");
}

export async function get(path, parameters = {}) {
  const index = await read("index");
  const [, , id, what] = path.split("/");
  const store = index.stores[`${id}/${parameters.store}`];
  if (what === "episodes" && store) return page(await read(`${store}/episodes`), parameters);
  if (["episode", "tree", "group"].includes(what) && store) return below(store, what, parameters, index);
  const file = index.files[key(path, parameters)];
  if (!file) throw new Error(path === "api/compare" ? index.compared : "This is not in the export.");
  return read(file);
}

async function below(store, what, {episode, group_id, first}, index) {
  const {rows} = await read(`${store}/episodes`);
  const matches = (name, value) => (row) => row[name].toWellFormed() === value;
  const at = rows.findIndex(what === "group" ? matches("group_id", group_id) : matches("episode_id", episode));
  if (at < 0) throw new Error("There is no such episode in this export.");
  if (what === "group" && rows[at].group_file === null) throw new Error(index.left_out);
  if (what !== "group" && at >= index.episodes) throw new Error(index.left_out);
  if (what !== "group") return (await read(`${store}/${at}`))[what];
  const group = await read(`${store}/group-${rows[at].group_file}`);
  const leading = group.members.filter((member) => member.id.toWellFormed() === first);
  return {...group, members: [...leading, ...group.members.filter((member) => !leading.includes(member))]};
}

/** Filter, sort and page the rows of a store as the viewer does. */
function page({rows, ...about}, query) {
  const number = (name) => (query[name] ? Number(query[name]) : null);
  let found = rows.filter((row) => CHOICES.every((name) => !query[name] || String(row[name]) === query[name])
    && (!query.success || String(row.success) === query.success)
    && (!query.id || row.episode_id.includes(query.id) || row.group_id.includes(query.id))
    && RANGES.every((name) => within(row[name], number(`${name}_min`), number(`${name}_max`))));
  const name = query.sort?.replace("-", "");
  if (name) found = found.toSorted(order(name, query.sort.startsWith("-") ? -1 : 1));
  const offset = Number(query.offset || 0);
  return {...about, rows: found.slice(offset, offset + Number(query.limit || 50)), total: found.length, episodes: rows.length, unsearched: 0};
}

const within = (value, low, high) => (low === null && high === null) || (value !== null && (low === null || value >= low) && (high === null || value <= high));

function order(name, sign) {
  return ({[name]: a}, {[name]: b}) => (a === null ? 1 : 0) - (b === null ? 1 : 0) || (a === b || a === null ? 0 : sign * (a < b ? -1 : 1));
}

/** Hand over what a run had when it was exported; nothing changes later. */
export function follow(path, handlers) {
  if (path.startsWith("api/runs/")) {
    get(path).then(({run, points}) => { handlers.points?.(points); handlers.run?.(run); }, () => {});
  }
  return () => {};
}
