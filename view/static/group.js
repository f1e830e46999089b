// The attempts of a group side by side, with the first turn in which they differ.
import {address, h, number, verdict, visible} from "./dom.js";
import {get} from "./source.js";

export async function groupPage(place, {id, parameters}) {
  const {store, group: name, first = ""} = parameters;
  const [run, group] = await Promise.all([get(`api/runs/${id}`), get(`api/runs/${id}/group`, {store, group_id: name, first})]);
  const link = (member) => address(`#/run/${id}/episode`, {store, episode: member.id.toWellFormed()});
  const most = Math.max(0, ...group.members.map((member) => member.turns.length));
  const said = group.divergence === null
    ? group.members.length > 1 ? "All attempts did the same." : "This group has one attempt."
    : `The attempts first differ in turn ${group.divergence + 1}.`;
  const rows = Array.from({length: most}, (_, at) => h(`tr${at === group.divergence ? ".divergence" : ""}`, {"data-item": at},
    h("th", {scope: "row"}, at === group.divergence ? `${at + 1} first difference` : at + 1),
    group.members.map((member) => cell(member.turns[at], group.members[0].turns[at], member === group.members[0]))));
  place.append(
    h("div.bar", {}, h("h1.id", {}, visible(group.group_id))),
    h("p", {"data-divergence": ""}, said, group.count > group.members.length ? ` The first ${group.members.length} of ${group.count} are shown.` : ""),
    h("div.scroll", {}, h("table.group", {},
      h("thead", {}, h("tr", {}, h("th", {}, "Turn"), group.members.map((member) =>
        h("th", {}, h("a", {href: link(member)}, visible(member.id)), h("br"), verdict(member), ` reward ${number(member.total_reward)}`)))),
      h("tbody", {}, rows))));
  const list = address(`#/run/${id}/episodes`, {store});
  return {trail: [[run.name, `#/run/${id}`], ["episodes", list], ["group"]], up: list};
}

function cell(turn, reference, isReference) {
  if (!turn) return h("td.quiet", {}, "ended");
  const differs = !isReference && turn.text !== reference?.text;
  return h(`td${differs ? ".differs" : ""}`, {}, h("pre", {dir: "auto"}, visible(turn.text)), turn.reward ? h("span.quiet.small", {}, `reward ${number(turn.reward)}`) : "");
}
