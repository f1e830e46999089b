"""Train a model to answer questions by searching, in one hop or in two.

The corpus is a wiki of 6,400 invented people, one line each. Finding where someone's teacher lives takes two searches.
The demonstrator searches correctly, except for questions about teachers: there, at any turn, it answers too soon with
probability 0.6, with a name that it has just read. The clone learns the format, to copy names, and that habit, which
stays at temperature 0. LOOP rewards right answers that the agent has read, and so removes the habit: with ``--seed 0``,
two hops rise from 38 to 96 % at temperature 0. With a probability of 0.8, as in docs/results/search-habit.md, one seed
in five learns nothing in as many steps. It trains on both kinds in turn, since with one of them alone the model forgets
the other. The questions of all evaluations need a page that no demonstration and no training question needs.

    python examples/search_training.py                 the whole run, some five minutes on two cores
    python examples/search_training.py --short         two steps of each, as a quick check

This does the same as ``turnwise train bc --config bc-search``, ``turnwise train loop --config loop-search``, and
evaluations. The script makes its own corpus and questions (``env_kwargs.corpus``, ``env_kwargs.questions``).
"""

import argparse
import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from itertools import islice
from pathlib import Path
from typing import Any

import turnwise as tw
from turnwise.agents import EpisodeContext, FunctionAgent, agent_from
from turnwise.rollouts import EpisodeStore, record_episodes
from turnwise.tasks import Rng, unit_hash
from turnwise.trainers import CloningConfig, LoopConfig

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
HABIT, HASTE = "teacher of", 0.6
"""Words of a question at which the demonstrator is hasty, and the probability, at each turn, that it then answers with
the name that it has just read."""
DEMONSTRATIONS = 12_000
SHORT = {
    "bc": ("steps=2", "batch=4", "eval.episodes=2", "eval.every=2"),
    "loop": ("steps=2", "tasks_per_step=2", "group_size=2", "minibatch=4", "eval.episodes=2", "eval.every=2"),
}
WORDS = {
    "bc": ("nano.tokenizer=word", "nano.context_length=1024", "agent.max_tokens=16"),
    "loop": ("agent.max_tokens=16",),
}
"""The names consist of so few words that each can be a token; the configurations cannot know that."""
ONSETS, ENDS = (
    ("ba", "do", "fi", "ke", "lu", "mo", "ri", "sa"),
    ("dan", "gil", "hep", "jor", "lor", "mis", "nur", "ren", "tuv", "wen"),
)
FIRST = [f"{a}{b}".capitalize() for a in ONSETS for b in ENDS]
LAST = [f"{b}{a}".capitalize() for a in ONSETS for b in ENDS]
PEOPLE = ("mother", "teacher")


def wiki(seed: int) -> dict[str, dict[str, str]]:
    """Return the relations of all people: three other people, a town and a trade."""
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    rng = Rng("example wiki", seed)
    towns, trades = [f"{one}berg".capitalize() for one in (*ENDS, *ONSETS)], [f"{one}smith" for one in (*ONSETS, *ENDS)]
    return {
        name: {
            **{relation: rng.pick([other for other in rng.sample(names, 2) if other != name]) for relation in PEOPLE},
            "town": rng.pick(towns),
            "trade": rng.pick(trades),
        }
        for name in names
    }


def page(name: str, facts: dict[str, str], seed: int) -> dict[str, str]:
    """Return the page of one of the people: the relations in random order."""
    order = Rng("example page", seed, name).sample(sorted(facts), len(facts))
    return {"id": key(name), "title": name, "text": " . ".join(f"{one} {facts[one]}" for one in order)}


def key(name: str) -> str:
    """Return the id of a page."""
    return name.lower().replace(" ", "-")


def questions(people: dict[str, dict[str, str]], hops: int, n: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield questions; those that rest on the page of one of a tenth of the people are held out as ``test_entity``."""
    rng, names = Rng("example questions", hops, seed), list(people)
    asked: set[str] = set()
    while len(asked) < n:
        name = rng.pick(names)
        way = [*(rng.pick(PEOPLE) for _ in range(hops - 1)), rng.pick([*PEOPLE, "town", "trade"])]
        text = " of ".join([*reversed(way), name]) + " ?"
        read = [name]
        for relation in way:
            read.append(people[read[-1]][relation])
        if text in asked or len(set(read)) <= hops:
            continue  # a duplicate, or a circle
        asked.add(text)
        facts = list(zip(read, way, strict=False))
        held_out = any(unit_hash("held out", one) < 0.1 for one, _ in facts)
        yield {
            "question": text,
            "answers": [read[-1]],
            "evidence": [[key(one)] for one, _ in facts],
            "passages": {key(one): f"{relation} {people[one][relation]}" for one, relation in facts},
            "lookups": [[f"{relation} {one}", key(one)] for one, relation in facts],
            "split": "test_entity" if held_out else "dev" if unit_hash("dev", text) < 0.1 else "train",
        }


def prepare(out: Path, seed: int) -> None:
    """Write the corpus and the questions."""
    out.mkdir(parents=True, exist_ok=True)
    people = wiki(seed)
    asked = {hops: list(questions(people, hops, 20_000, seed)) for hops in (1, 2)}
    files = {
        "corpus": [page(name, facts, seed) for name, facts in people.items()],
        "one": asked[1],
        "two": asked[2],
        "both": [line for pair in zip(asked[1], asked[2], strict=True) for line in pair],
    }
    for name, lines in files.items():
        text = "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines)
        (out / f"{name}.jsonl").write_text(text, encoding="utf-8")


def hasty(habit: str, haste: float) -> Callable[[EpisodeContext], Callable[[str], Awaitable[tw.Action | tw.ToolCall]]]:
    """Return what creates the demonstrator's function for one episode."""

    def begin(context: EpisodeContext) -> Callable[[str], Awaitable[tw.Action | tw.ToolCall]]:
        asked = ""

        async def act(observation: str) -> tw.Action | tw.ToolCall:
            nonlocal asked
            asked = asked or observation
            if habit not in asked or context.rng.random() >= haste:
                return await context.oracle()
            names = re.findall(r"[A-Z]\w+ [A-Z]\w+", observation)
            return tw.ToolCall("answer", {"text": names[0]})

        return act

    return begin


async def demonstrate(
    env: str, env_kwargs: dict[str, Any], store: Path, n: int, *, seed: int, habit: str = HABIT, haste: float = HASTE
) -> None:
    """Play demonstrations into a store, except those that it already has."""
    options = tw.RunOptions(concurrency=64, env_kwargs=env_kwargs, seed=seed)
    tasks = islice(tw.make(env, **env_kwargs).unwrapped.tasks().sample(n, split="train", level=1), n)
    run = {"env": env, "env_kwargs": env_kwargs, "haste": haste, "habit": habit, "seed": seed}
    with EpisodeStore(store, run=run) as opened:
        agent = FunctionAgent(factory=hasty(habit, haste))
        async with aclosing(record_episodes(env, agent, tasks, opened, options=options)) as episodes:
            solved = [bool(episode.success) async for episode in episodes]
    if solved:
        print(f"{len(solved)} demonstrations, {sum(solved) / len(solved):.1%} of them solved")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--short", action="store_true", help="run only a few steps")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--out", default="runs/search", help="output folder")
    said = words.parse_args()
    out = Path(said.out)
    prepare(out, said.seed)

    def settings(kind: str, *more: str) -> list[str]:
        files = (f"corpus={out}/corpus.jsonl", f"questions={out}/both.jsonl")
        kwargs = [f"episodes.env_kwargs.{one}" for one in files]
        short = SHORT[kind] if said.short else ()
        return [f"out={out}/{kind}", f"seed={said.seed}", *kwargs, *WORDS[kind], *more, *short]

    both = tw.load_config(LoopConfig, CONFIGS / "loop-search.toml", settings("loop", f"model={out}/bc/model"))
    n = 12 if said.short else DEMONSTRATIONS
    asyncio.run(demonstrate(both.env, both.episodes.env_kwargs, out / "demonstrations", n, seed=said.seed))
    shown = f"demonstrations.store={out}/demonstrations"
    tw.train(tw.load_config(CloningConfig, CONFIGS / "bc-search.toml", settings("bc", shown)))
    tw.train(both)
    for name in ("bc", "loop"):
        for asked in ("one", "two"):
            for temperature in (1.0, 0.0):
                found = tw.evaluate(
                    both.env,
                    agent_from(f"{out}/{name}/model", max_batch=128, temperature=temperature),
                    env_kwargs={**both.episodes.env_kwargs, "questions": f"{out}/{asked}.jsonl"},
                    n=4 if said.short else 300,
                    splits="test_entity",
                    levels=1,
                    concurrency=100,
                    out=out / f"eval-{name}-{asked}-{temperature:g}",
                    overwrite=True,
                ).success
                interval = f"({found.low:.1%} – {found.high:.1%})"
                print(f"{name:4} {asked} T={temperature:g}  success {found.value:6.1%}  {interval}")


if __name__ == "__main__":
    main()
