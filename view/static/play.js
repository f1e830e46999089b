// Play an environment as its agent: what it saw, forms for its tools, and a field for text.
import {address, h, number, verdict, visible} from "./dom.js";
import {folded, long, message} from "./episode.js";
import {get, post} from "./source.js";

const CONTEXT = {base: "api/play", where: {}};

export async function playPage(place) {
  let state = await get("api/play");
  let closed = false;
  const problem = h("p.problem", {role: "status"});
  const split = select("Split", state.splits);
  const level = select("Level", state.levels, (value) => `level ${value}`);
  const begin = h("button", {type: "button", onclick: () => send("start", {split: split.value, level: Number(level.value)})}, "New episode");
  const stop = h("button", {type: "button", onclick: () => send("stop", {})}, "Give up");
  const conversation = h("div.turns");
  const answer = h("section.turn", {"aria-label": "Your action"});
  place.append(h("div.bar", {}, h("h1", {}, visible(state.env)), split, level, begin, stop),
    h("p.quiet", {}, "You see what an agent sees. An episode that ends is recorded; one that you give up is not."), problem, conversation, answer);

  async function send(what, content) {
    problem.textContent = "";
    try { draw(await post(`api/play/${what}`, content)); } catch (error) { problem.textContent = error.message; }
  }

  async function draw(found) {
    state = found;
    const {now, last} = state;
    begin.disabled = state.playing;
    stop.disabled = !state.playing;
    if (state.problem) problem.textContent = visible(state.problem);
    conversation.replaceChildren(...(now ? [...now.turns.map(turn), now.final.length ? h("section.turn", {"data-item": ""}, h("h3", {}, `Turn ${now.turns.length + 1}`), now.final.map((each) => message(each, CONTEXT))) : ""] : []));
    answer.hidden = !state.asked && !last;
    answer.replaceChildren(...(state.asked ? form(now.turns.length) : last ? [ended(last)] : []));
    place.dataset.turn = state.asked ? String(now.turns.length) : "";
    if (state.playing && !state.asked && !closed) draw(await get("api/play"));
    else if (state.asked) {
      conversation.lastElementChild?.scrollIntoView({block: "nearest"});
      answer.querySelector("select, textarea, input")?.focus({preventScroll: true});
    }
  }

  function ended(last) {
    const href = address(`#/run/${state.run}/episode`, {store: ".", episode: last.episode});
    return h("p", {"data-ended": ""}, verdict(last), ` ${last.outcome.replace("_", " ")}, reward ${number(last.reward)}, ${last.turns} turns. `, h("a", {href}, "The recorded episode"));
  }

  function form(at) {
    const tools = state.tools.map((tool) => toolForm(tool, (calls) => send("act", {turn: at, calls})));
    const choice = select("Tool", state.tools.map((tool) => tool.name));
    const chosen = () => tools.forEach((each, number) => { each.hidden = state.tools[number].name !== choice.value; });
    choice.addEventListener("change", chosen);
    chosen();
    const text = h("textarea", {"aria-label": "Answer as text", placeholder: "Answer as text (Ctrl+Enter sends)", rows: 2});
    const write = () => send("act", {turn: at, text: text.value});
    text.addEventListener("keydown", (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) write(); });
    return [h("h3", {}, "Your action"), tools.length ? h("div.bar", {}, choice) : "", ...tools,
      h("div.bar", {}, text, h("button", {type: "button", onclick: write}, "Send text"))];
  }

  function turn(each, at) {
    return h("section.turn", {"data-item": ""}, h("h3", {}, `Turn ${at + 1}`), each.observation.map((one) => message(one, CONTEXT)),
      h("div.message.assistant", {}, h("span.role", {}, "you"), each.text.text && long(each.text, CONTEXT), each.calls.map((call) => folded(call, CONTEXT))));
  }

  await draw(state);
  return {trail: [["play"]], up: "#/", close: () => { closed = true; }};
}

function select(label, values, text = String) {
  return h("select", {"aria-label": label}, values.map((value) => h("option", {value}, visible(text(value)))));
}

/** Fields for the arguments of a tool, by their JSON Schema. */
function toolForm(tool, call) {
  const {properties = {}, required = []} = tool.parameters;
  const problem = h("span.problem");
  const fields = Object.entries(properties).map(([name, schema]) => [name, ...field(name, simplified(schema, tool.parameters), required.includes(name)), schema.description ?? ""]);
  function submit() {
    try {
      const given = {};
      for (const [name, , read] of fields) {
        const value = read();
        if (value !== undefined) Object.defineProperty(given, name, {value, enumerable: true});
      }
      problem.textContent = "";
      call([{name: tool.name, arguments: given}]);
    } catch (error) { problem.textContent = error.message; }
  }
  const form = h("div.tool", {"data-tool": tool.name}, h("p.quiet.small", {}, visible(tool.description)),
    fields.map(([name, input, , description]) => h("label", {}, h("span", {}, visible(required.includes(name) ? name : `${name} (optional)`)),
      h("span", {}, input, h("span.quiet.small", {}, visible(description))))),
    h("button", {type: "button", onclick: submit}, "Call ", visible(tool.name)), problem);
  form.addEventListener("keydown", (event) => { if (event.key === "Enter" && event.target.matches("input")) submit(); });
  return form;
}

/** A schema without references and null: one type, or "any" with whether text is allowed. */
function simplified(schema, root) {
  const followed = schema.$ref ? root.$defs?.[schema.$ref.split("/").at(-1)] ?? {} : schema;
  const options = (followed.anyOf ?? [followed]).filter((each) => each.type !== "null");
  if (options.length === 1) return options[0] === followed ? followed : simplified(options[0], root);
  return {type: "any", text: options.some((each) => each.type === "string")};
}

/** An input for a value, and a function that reads it; an optional one that is empty is left out. */
function field(name, schema, needed) {
  const kind = schema.enum ? "enum" : schema.type;
  if (kind === "enum" || kind === "boolean") {
    const values = kind === "enum" ? schema.enum : [true, false];
    const list = h("select", {}, !needed && h("option", {value: ""}, "–"), values.map((value) => h("option", {value: JSON.stringify(value)}, visible(value))));
    return [list, () => (list.value ? JSON.parse(list.value) : undefined)];
  }
  if (kind === "string") {
    const text = h("textarea", {rows: 1});
    return [text, () => (text.value || needed ? text.value : undefined)];
  }
  const numeric = kind === "integer" || kind === "number";
  const input = h("input", {type: numeric ? "number" : "text", step: kind === "integer" ? 1 : "any", placeholder: numeric ? "" : schema.text ? "text or JSON" : "JSON"});
  return [input, () => {
    if (!input.value.trim()) {
      if (needed) throw new Error(`${name} is missing`);
      return undefined;
    }
    try { return JSON.parse(input.value); } catch { if (schema.text) return input.value; throw new Error(`${name} is not ${numeric ? "a number" : "JSON"}`); }
  }];
}
