// Two episodes side by side: what both saw and did, with the first difference marked.
import {address, h, number, verdict, visible} from "./dom.js";
import {get} from "./source.js";
import {message} from "./episode.js";

export async function pairPage(place, {parameters}) {
  const sides = await Promise.all(["a", "b"].map(async (name) => {
    const id = parameters[name], where = {store: parameters[`${name}_store`], episode: parameters[`${name}_episode`]};
    const [run, episode] = await Promise.all([get(`api/runs/${id}`), get(`api/runs/${id}/episode`, where)]);
    return {id, where, run, episode, href: address(`#/run/${id}/episode`, where)};
  }));
  const [a, b] = sides.map((side) => side.episode.turns);
  const first = divergence(a, b);
  const jump = () => place.querySelector(".divergence")?.scrollIntoView({block: "start"});
  place.append(
    h("div.bar", {}, h("h1", {}, "Two episodes"), first && h("button", {type: "button", onclick: jump}, "First difference")),
    h("p", {"data-divergence": ""}, first ? `They first differ in turn ${first.turn + 1}: ${first.what}.` : "They do not differ.",
      h("span.quiet", {}, sides.some(({episode}) => cut(episode)) ? " Long texts are compared up to 20,000 characters." : "")),
    h("div.pair", {}, sides.map(({run, episode, href}) => h("div", {}, h("p", {}, h("a", {href}, visible(episode.episode_id)), h("span.quiet", {}, ` ${visible(run.name)}`)),
      h("p", {}, verdict(episode), ` reward ${number(episode.total_reward)}, ${episode.turns.length} turns`)))));
  for (let at = 0; at < Math.max(a.length, b.length); at++) place.append(turn(at, sides, first?.turn === at ? first.what : null));
  const both = sides.map(({id, where}) => ({base: `api/runs/${id}`, where}));
  if (sides.some((side) => side.episode.final.length)) {
    place.append(h("section.turn", {}, h("h3", {}, "After the last action"), h("div.pair", {}, sides.map((side, at) =>
      h("div", {}, side.episode.final.map((each) => message(each, both[at])))))));
  }
  const back = address("#/compare", {a: parameters.a, a_store: parameters.a_store, b: parameters.b, b_store: parameters.b_store});
  return {trail: [["compare", back], ["two episodes"]], up: back, keys: {d: jump}};
}

function turn(at, sides, what) {
  const [one, other] = sides.map((side) => side.episode.turns[at]);
  const sameSight = one && other && saw(one) === saw(other);
  const head = h("h3", {}, `Turn ${at + 1}`, what && h("span.badge.interrupted", {}, `first difference: ${what}`));
  const cell = (side, mine, theirs) => {
    if (!mine) return h("div.quiet", {}, "ended");
    const context = {base: `api/runs/${side.id}`, where: side.where};
    const seen = mine.observation.map((each) => message(each, context));
    return h("div", {}, sameSight ? h("details", {}, h("summary", {}, "Both saw the same"), seen) : seen,
      h("div.message.assistant", {}, h("span.role", {}, `agent · reward ${number(mine.reward)}`), h("pre", {dir: "auto"}, marked(did(mine), theirs ? did(theirs) : null))));
  };
  return h(`section.turn${what ? ".divergence" : ""}`, {"data-item": at}, head, h("div.pair", {}, cell(sides[0], one, other), cell(sides[1], other, one)));
}

/** The first turn in which two episodes differ, and in what; null if in none. */
export function divergence(a, b) {
  for (let at = 0; at < Math.max(a.length, b.length); at++) {
    if (!a[at] || !b[at]) return {turn: at, what: "one has ended"};
    if (saw(a[at]) !== saw(b[at])) return {turn: at, what: "what they saw"};
    if (did(a[at]) !== did(b[at])) return {turn: at, what: "what they did"};
    if (a[at].reward !== b[at].reward) return {turn: at, what: "the reward"};
  }
  return null;
}

const calls = (all) => all.map((call) => call.text.text);
const saw = (turn) => JSON.stringify(turn.observation.map(({role, name, parts, calls: made}) => [role, name, parts.map((part) => part.text?.text ?? "[image]"), calls(made)]));
const did = (turn) => [turn.text.text, ...calls(turn.calls)].filter(Boolean).join("\n");
const cut = (episode) => episode.turns.some((turn) => turn.text.more || turn.calls.some((call) => call.text.more) || turn.observation.some((each) => each.parts.some((part) => part.text?.more)));

/** A text whose part that differs from the other text is marked. */
function marked(text, other) {
  if (other === null || text === other) return visible(text);
  const [mine, theirs] = [[...text], [...other]];
  const most = Math.min(mine.length, theirs.length);
  let start = 0, end = 0;
  while (start < most && mine[start] === theirs[start]) start++;
  while (end < most - start && mine[mine.length - 1 - end] === theirs[theirs.length - 1 - end]) end++;
  const part = (from, to) => visible(mine.slice(from, to).join(""));
  return [part(0, start), h("mark", {}, part(start, mine.length - end)), part(mine.length - end, mine.length)];
}
