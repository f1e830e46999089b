// What the learner knew about an episode: colors of tokens, and the critic's value along the turns.
import {h, number, svg} from "./dom.js";

const MODES = {
  probability: "probability", version: "policy version", staleness: "staleness", advantages: "advantage", clips: "clipping", entropies: "entropy",
  mismatch: "sampler–trainer mismatch",
};
const LEARNED = ["staleness", "advantages", "clips", "entropies", "mismatch"];

/** Add what follows from the numbers of tokens: staleness, and clips (above 0 by the upper bound, below 0 by the lower one). */
function derive({turns, step}) {
  for (const {tokens} of turns) {
    if (tokens && step !== null && tokens.versions.length) tokens.staleness = tokens.versions.map((version) => step - 1 - version);
    if (tokens?.clipped_high) tokens.clips = tokens.clipped_high.map((high, at) => (high >= tokens.clipped_low[at] ? high : -tokens.clipped_low[at]));
  }
}

/** Names of the colorings that an episode has numbers for. */
export function modes(episode) {
  derive(episode);
  const has = (name) => episode.turns.some((turn) => turn.tokens?.[name]);
  return Object.entries(MODES).filter(([name]) => !LEARNED.includes(name) || has(name));
}

/** Largest absolute value of a number over all tokens of an episode; of clips, the number of updates. */
export function largest(episode, mode) {
  if (mode === "clips") return episode.updates;
  let found = 0;
  for (const turn of episode.turns) for (const value of turn.tokens?.[mode] ?? []) found = Math.max(found, Math.abs(value ?? 0));
  return found;
}

/** Class of a token: red for little probability, old versions, much entropy or mismatch; blue and red for the sign of an advantage or a bound. */
export function shade(mode, tokens, at, most, [oldest, newest]) {
  if (mode === "version") return `heat-${newest > oldest ? Math.round((9 * (newest - tokens.versions[at])) / (newest - oldest)) : 0}`;
  if (mode === "probability") {
    const p = tokens.probabilities[at];
    return `heat-${p === undefined || p === null ? "none" : Math.min(9, Math.floor(9 * Math.min(1, -Math.log10(Math.max(p, 1e-9)) / 2)))}`;
  }
  const value = tokens[mode]?.[at];
  if (value === undefined || value === null || !most) return "heat-none";
  if (mode === "mismatch") return `heat-${Math.max(0, Math.min(9, Math.round(3 * (Math.log10(Math.max(Math.abs(value), 1e-9)) + 3))))}`;
  const level = Math.ceil((9 * Math.abs(value)) / most);
  const blue = (mode === "advantages" && value > 0) || (mode === "clips" && value < 0);
  return blue ? `gain-${level}` : `heat-${level}`;
}

/** Words about one token for its title. */
export function details(tokens, at, updates) {
  const of = updates === 1 ? "the only update" : `of ${updates} updates`;
  const count = (number, bound) => (number ? `, clipped by the ${bound} bound in ${updates === 1 ? of : `${number} ${of}`}` : "");
  const clips = tokens.clips ? count(tokens.clipped_high[at], "upper") + count(tokens.clipped_low[at], "lower") : "";
  const named = [["advantage", "advantages", ""], ["entropy", "entropies", " nats"], ["sampler minus trainer", "mismatch", " nats"]];
  return named.map(([name, key, unit]) => (tokens[key]?.[at] === undefined ? "" : `, ${name} ${number(tokens[key][at])}${unit}`)).join("") + clips;
}

/** One sentence on the colors. */
export function legend(mode, most) {
  return {
    probability: "Red: the sampler found the token unlikely, at most 1 % in the darkest.",
    version: "Red: an older policy sampled the token.",
    staleness: most ? `Red: a policy before the step's own sampled the token, ${number(most)} versions older at most.` : "The step's own policy sampled every token.",
    clips: `Red: the upper bound of the ratio clipped the loss of the token. Blue: the lower bound. The darkest tokens were clipped in every update.`,
    advantages: `Blue: better than expected. Red: worse. Largest advantage ${number(most)}.`,
    entropies: `Red: the policy was undecided. Largest entropy ${number(most)} nats.`,
    mismatch: `Red: sampler and trainer disagree on the token's probability, by ${number(most)} nats at most; the darkest begins at 1 nat.`,
  }[mode];
}

/** A line of the critic's values before each turn, with the width and the slots of the rewards above it. */
export function values(episode, turns) {
  const known = episode.turns.map((turn, at) => [at, turn.value]).filter(([, value]) => value !== null && value !== undefined);
  if (!known.length) return "";
  const width = 720, slot = Math.min(24, width / episode.turns.length), x = (at) => at * slot + slot / 2;
  const low = Math.min(0, ...known.map(([, value]) => value)), high = Math.max(0, ...known.map(([, value]) => value));
  const y = (value) => 42 - (38 * (value - low)) / (high - low || 1);
  const [first, last] = [known[0][1], known[known.length - 1][1]];
  const drawing = svg("svg", {viewBox: `0 0 ${width} 46`, class: "rewards values", role: "img",
    "aria-label": `Critic's value before each turn, from ${number(first)} to ${number(last)}`});
  drawing.append(svg("line", {x1: 0, x2: width, y1: y(0), y2: y(0)}),
    svg("polyline", {points: known.map(([at, value]) => `${x(at)},${y(value)}`).join(" ")}));
  for (const [at, value] of known) {
    drawing.append(svg("g", {onclick: () => turns.children[at].scrollIntoView({behavior: "smooth"})},
      svg("rect", {class: "slot", x: at * slot, y: 0, width: slot, height: 46}),
      svg("circle", {class: "point", cx: x(at), cy: y(value), r: 2.2}),
      svg("title", {}, `before turn ${at + 1}: ${number(value)}`)));
  }
  return h("figure.strip", {}, h("figcaption.quiet", {}, `Critic's value before each turn (${number(low)} to ${number(high)})`), drawing);
}
