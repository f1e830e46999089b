// One episode: conversation, rewards, checks, tokens, forks.
import {address, h, number, percent, seconds, svg, verdict, visible} from "./dom.js";
import {details, largest, legend, modes, shade, values} from "./learned.js";
import {get, post, writing} from "./source.js";

export async function episodePage(place, {id, parameters}) {
  const {store, episode: name} = parameters;
  const where = {store, episode: name};
  const [run, episode, forks, may] = await Promise.all([
    get(`api/runs/${id}`), get(`api/runs/${id}/episode`, where), get(`api/runs/${id}/tree`, where), writing()]);
  const link = (other) => address(`#/run/${id}/episode`, {store, episode: other.toWellFormed()});
  const list = address(`#/run/${id}/episodes`, {store});
  const context = {base: `api/runs/${id}`, where};
  let shown = false;
  const turns = h("div.turns");
  const mode = h("select", {"aria-label": "Color tokens by", onchange: color}, modes(episode).map(([value, text]) => h("option", {value}, `color by ${text}`)));
  const toggle = h("button", {type: "button", "aria-pressed": "false", onclick: tokens}, "Tokens");
  const sampled = episode.turns.some((turn) => turn.tokens);

  place.append(
    h("div.bar", {}, h("h1.id", {}, visible(episode.episode_id)), verdict(episode)),
    h("div.facts", {},
      fact("outcome", episode.outcome.replace("_", " ")), fact("reward", number(episode.total_reward)), fact("turns", episode.turns.length),
      fact("environment", episode.env_id), fact("template", episode.task.template), fact("level", episode.task.level ?? "–"), fact("seed", episode.task.seed),
      fact("split", episode.task.split), fact("time", seconds(episode.seconds)), episode.attempts > 1 && fact("attempts", episode.attempts),
      episode.step !== null && fact("step", episode.step),
      h("a.button", {href: address(`#/run/${id}/group`, {store, group: episode.group_id.toWellFormed(), first: episode.episode_id.toWellFormed()})}, "Group side by side")),
    episode.error.text ? h("div.problem", {}, long(episode.error, context)) : "",
    checks(episode),
    annotation(episode, id, where, may.annotate),
    forks.length ? tree(forks, episode.episode_id, link) : "",
    rewards(episode, turns),
    values(episode, turns),
    h("div.bar", {}, h("h2", {}, "Conversation"), sampled && toggle, sampled && mode, sampled ? "" : h("span.quiet", {}, "no tokens are stored: the actions did not come from a model that samples tokens here")),
    sampled ? h("p.quiet.small", {hidden: true, "data-notes": ""}, h("span", {"data-legend": ""}), notes(episode)) : "",
    turns);
  turns.append(...episode.turns.map((turn, at) => turnBlock(turn, at, episode, context)),
    episode.final.length ? h("section.turn", {}, h("h3", {}, "After the last action"), episode.final.map((each) => message(each, context))) : "");

  function tokens() {
    shown = !shown;
    toggle.setAttribute("aria-pressed", String(shown));
    turns.classList.toggle("with-tokens", shown);
    place.querySelector("[data-notes]").hidden = !shown;
    if (shown) color();
  }

  function color() {
    const most = largest(episode, mode.value);
    turns.dataset.mode = mode.value;
    place.querySelector("[data-legend]").textContent = `${legend(mode.value, most)} `;
    episode.turns.forEach((turn, at) => {
      const target = turns.querySelector(`[data-turn="${at}"] .tokens`);
      if (target && turn.tokens && turns.classList.contains("with-tokens")) {
        const drawn = document.createDocumentFragment();
        for (const span of spans(turn, episode, mode.value, most)) drawn.append(span);
        target.replaceChildren(drawn);
      }
    });
  }

  if (parameters.turn) requestAnimationFrame(() => turns.children[Number(parameters.turn)]?.scrollIntoView());
  return {trail: [[run.name, `#/run/${id}`], ["episodes", list], [episode.episode_id]], up: list, keys: sampled ? {x: tokens} : {}};
}

const fact = (name, value) => h("span.fact", {}, h("span.quiet", {}, `${name} `), h("b", {}, visible(value)));

function notes(episode) {
  const stale = episode.step === null ? "" : " Staleness is the step of the episode minus one, minus the version of a token.";
  const text = episode.token_texts ? "" : " The tokenizer is not on this machine or cannot be read, so tokens show as ids.";
  return episode.learner_note + stale + text;
}

function checks(episode) {
  const all = Object.entries(episode.checks ?? {});
  const others = [["collateral", episode.collateral], ["violation", episode.violations]].flatMap(([kind, texts]) => texts.map((text) => [kind, text]));
  if (!all.length && !others.length) return "";
  return h("ul.checks", {"aria-label": "Checks"},
    all.map(([name, passed]) => h(`li.${passed ? "good" : "bad"}`, {}, `${passed ? "✓" : "✗"} ${visible(name)}`)),
    others.map(([kind, text]) => h("li.bad", {}, `${kind}: ${visible(text)}`)));
}

/** A reader's label and comment, with fields to change them where the viewer may write. */
function annotation({annotation: given}, id, where, mayWrite) {
  const shown = h("p.note", {hidden: !given}, given && said(given));
  if (!mayWrite) return shown;
  const label = h("input", {type: "text", list: "labels", placeholder: "Label", "aria-label": "Label", maxlength: 100, value: given?.label ?? ""});
  const comment = h("textarea", {placeholder: "Comment", "aria-label": "Comment", rows: 2, maxlength: 10000}, given?.comment ?? "");
  const problem = h("span.problem", {role: "status"});
  async function save() {
    try {
      const saved = await post("api/note", {run: id, ...where, label: label.value, comment: comment.value});
      shown.replaceChildren(...said(saved));
      shown.hidden = !(saved.label || saved.comment);
      problem.textContent = "";
    } catch (error) { problem.textContent = error.message; }
  }
  return h("div", {}, shown, h("details.records", {}, h("summary", {}, "Label or comment"),
    h("div.bar", {}, label, h("datalist", {id: "labels"}, ["good", "bad", "reward hack", "environment fault"].map((value) => h("option", {value}))),
      comment, h("button", {type: "button", onclick: save}, "Save"), problem)));
}

const said = ({label, comment}) => [label && h("span.badge.stored", {}, visible(label)), " ", visible(comment)].filter(Boolean);

function tree(forks, self, link) {
  const below = (parent) => forks.filter((each) => each.parent === parent || (parent === null && each === forks[0]));
  const item = (each) => {
    const text = each.missing ? "not in this store" : `${each.outcome.replace("_", " ")}, reward ${number(each.total_reward)}, ${each.turns} turns`;
    const inside = forks.filter((other) => other.parent === each.id && other !== each);
    return h("li", {}, each.id === self ? h("b", {}, visible(each.id)) : each.missing ? visible(each.id) : h("a", {href: link(each.id)}, visible(each.id)),
      h("span.quiet", {}, ` ${each.parent ? `left at turn ${each.turn + 1} · ` : ""}${text}`), inside.length ? h("ul", {}, inside.map(item)) : "");
  };
  return h("details.tree", {open: true}, h("summary", {}, `Forks (${forks.length})`), h("ul", {}, below(null).slice(0, 1).map(item)));
}

function rewards(episode, turns) {
  const values = episode.turns.map((turn) => turn.reward ?? 0);
  if (!values.length) return "";
  const size = Math.max(...values.map(Math.abs), 1e-9), width = 720, slot = Math.min(24, width / values.length);
  const drawing = svg("svg", {viewBox: `0 0 ${width} 46`, class: "rewards", role: "img", "aria-label": "Reward of each turn"});
  drawing.append(svg("line", {x1: 0, x2: width, y1: 23, y2: 23}));
  values.forEach((value, at) => {
    const length = Math.max(value === 0 ? 0 : 2, (20 * Math.abs(value)) / size);
    const group = svg("g", {onclick: () => turns.children[at].scrollIntoView({behavior: "smooth"})});
    group.append(svg("rect", {class: "slot", x: at * slot, y: 0, width: slot, height: 46}),
      svg("rect", {class: value < 0 ? "bad" : "good", x: at * slot + 1, y: value < 0 ? 23 : 23 - length, width: Math.max(1, slot - 2), height: length}),
      svg("circle", {class: "tick", cx: at * slot + slot / 2, cy: 23, r: 1.2}),
      svg("title", {}, `turn ${at + 1}: ${number(value)}`));
    drawing.append(group);
  });
  return h("figure.strip", {}, h("figcaption.quiet", {}, "Reward by turn"), drawing);
}

function turnBlock(turn, at, episode, context) {
  const value = episode.values.find((each) => each.turn === at);
  const shared = episode.fork && at < episode.fork.turn;
  const ends = turn.terminated ? "terminated" : turn.truncated ? "truncated" : "";
  const head = h("h3", {}, `Turn ${at + 1}`,
    turn.seat !== "agent" && h("span.quiet", {}, visible(turn.seat)),
    h(`span.reward${turn.reward > 0 ? ".good" : turn.reward < 0 ? ".bad" : ""}`, {}, `reward ${number(turn.reward)}`),
    turn.value !== null && h("span.quiet", {}, `critic ${number(turn.value)}`),
    value && h("span.quiet", {}, `value ${number(value.value)} (${value.rollouts} rollouts)`),
    shared && h("span.badge.stored", {}, "shared with its parent"),
    ends && h("span.badge.stored", {}, ends), turn.finish === "length" && h("span.badge.interrupted", {}, "cut at the token limit"),
    !turn.sent && h("span.badge.interrupted", {}, "not sent"),
    h("span.quiet.end", {}, `policy ${seconds(turn.seconds[0])} · environment ${seconds(turn.seconds[1])}`));
  const action = h("div.message.assistant", {}, h("span.role", {}, "agent"),
    turn.thoughts.text && h("details", {}, h("summary", {}, `Thoughts, ${(turn.thoughts.text.length + turn.thoughts.more).toLocaleString("en")} characters`), long(turn.thoughts, context)),
    turn.text.text && long(turn.text, context), turn.calls.map((call) => folded(call, context)),
    turn.problem && h("p.problem.small", {}, visible(turn.problem)),
    turn.tokens && h("div.token-view", {}, h("p.quiet.small", {}, summary(turn, episode)), h("div.tokens")));
  const changed = turn.changes.length > 0 && h("div.small", {}, h("span.quiet", {}, "Rows changed in this turn"), h("ul", {"aria-label": "Rows changed in this turn"}, turn.changes.map((line) => h("li", {}, visible(line)))));
  const records = turn.records && h("details.records", {}, h("summary", {}, "Records of the environment"), long(turn.records, context));
  return h("section.turn", {"data-item": "", "data-turn": at}, head, at === 0 && screenshot(episode, "at the beginning", context),
    turn.observation.map((each) => message(each, context)), action, changed, screenshot(turn, `after turn ${at + 1}`, context), records);
}

function summary(turn, episode) {
  const {probabilities, versions, ids} = turn.tokens;
  const known = probabilities.filter((each) => each !== null);
  const lowest = known.length ? ` · lowest probability ${percent(extremes(known)[0])}` : " · no probabilities are stored";
  const from = [...new Set(versions)];
  const row = turn.row === null ? "" : ` · training row ${turn.row + 1} of ${episode.rows}`;
  return `${ids.length} sampled tokens (trained) after ${turn.prompt_tokens} prompt tokens (masked)${row}${lowest} · policy version ${from.join(", ") || "not stored"}`;
}

/** Smallest and largest value. A turn may have more tokens than a call may have arguments. */
function extremes(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function spans(turn, episode, mode, most) {
  const {ids, texts, probabilities, versions} = turn.tokens;
  const range = extremes(versions);
  return ids.map((id, at) => {
    const p = probabilities[at], version = versions[at];
    const stale = episode.step === null || version === undefined ? "" : `, staleness ${episode.step - 1 - version}`;
    const title = `id ${id}${p === undefined || p === null ? "" : `, probability ${percent(p)}`}${version === undefined ? "" : `, version ${version}`}${stale}${details(turn.tokens, at, episode.updates)}`;
    return h(`span.token.${shade(mode, turn.tokens, at, most, range)}`, {title}, texts ? visible(texts[at]).replace(/\n/g, "⏎\n") : String(id));
  });
}

export function message(one, context) {
  return h(`div.message.${["system", "user", "assistant", "tool"].includes(one.role) ? one.role : "user"}`, {},
    h("span.role", {}, visible(one.name ? `${one.role} ${one.name}` : one.role)),
    one.parts.map((part) => (part.image ? image(part, context) : long(part.text, context))),
    one.calls.map((call) => folded(call, context)));
}

export function folded(call, context) {
  return h("details.call", {}, h("summary", {}, h("b", {}, visible(call.name)), h("span.quiet", {}, ` ${visible(call.text.text).slice(call.name.length, 90)}`)), long(call.text, context));
}

function screenshot({shot, src}, when, context) {
  return shot && h("details.records", {}, h("summary", {}, `Screenshot ${when}`), h("div.message", {}, image({image: shot, src, alt: `screenshot ${when}`}, context)));
}

function image({image: at, src, alt = "image that the agent saw"}, {base, where}) {
  return h("img", {src: src ?? address(`${base}/image`, {...where, at}), loading: "lazy", alt});
}

/** A text, and a button for the rest of a long one. */
export function long(text, {base, where}) {
  const pre = h("pre", {dir: "auto"}, visible(text.text));
  if (!text.more) return pre;
  let offset = text.text.length;
  // Characters are counted as Python does: a pair of surrogates is one.
  offset = [...text.text].length;
  const button = h("button", {type: "button", onclick: async () => {
    const found = await get(`${base}/text`, {...where, at: text.at, offset});
    offset += [...found.text].length;
    pre.append(visible(found.text));
    button.textContent = label(found.more);
    button.hidden = !found.more;
  }}, label(text.more));
  return h("div", {}, pre, button);
}

const label = (more) => `Show more (${more.toLocaleString("en")} characters)`;
