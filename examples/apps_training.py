"""Train a model to use a user's apps: clone a hasty demonstrator, then LOOP, both measured on unseen worlds.

The demonstrator knows how to do every task, but gives up at any turn with probability 0.3. The clone learns to write
calls, to copy what it reads, and that habit. LOOP rewards the final state of the rows, and so removes the habit.

    python examples/apps_training.py                 the whole run, some 15 minutes on two cores
    python examples/apps_training.py --short         two steps of each, as a quick check

This does the same as ``turnwise train bc --config bc-apps`` with the demonstrations made here, ``turnwise train loop
--config loop-apps`` and evaluations.
"""

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from itertools import islice
from pathlib import Path

import turnwise as tw
from turnwise.agents import EpisodeContext, FunctionAgent, agent_from
from turnwise.rollouts import EpisodeStore, record_episodes
from turnwise.trainers import CloningConfig, LoopConfig

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
HASTE = 0.3
"""Probability that the demonstrator gives up instead of acting."""
DEMONSTRATIONS = 4000
SHORT = {
    "bc": ("steps=2", "batch=4", "eval.episodes=2", "eval.every=2"),
    "loop": ("steps=2", "tasks_per_step=2", "group_size=2", "minibatch=4", "eval.episodes=2", "eval.every=2"),
}


def hasty(context: EpisodeContext) -> Callable[[str], Awaitable[tw.Action | tw.ToolCall]]:
    """Return the demonstrator's function for one episode."""

    async def act(observation: str) -> tw.Action | tw.ToolCall:
        return tw.ToolCall("task_answer") if context.rng.random() < HASTE else await context.oracle()

    return act


async def demonstrate(config: LoopConfig, store: Path, n: int, seed: int) -> None:
    """Play demonstrations into a store, except those that it already has."""
    options = tw.RunOptions(concurrency=64, env_kwargs=config.episodes.env_kwargs, seed=seed)
    family = tw.make(config.env, **config.episodes.env_kwargs).unwrapped.tasks()
    tasks = islice(family.sample(n, split="train", level=1, first_seed=10_000_000 + 1_000_000 * seed), n)
    run = {"env": config.env, "env_kwargs": options.env_kwargs, "haste": HASTE, "seed": seed}
    with EpisodeStore(store, run=run) as opened:
        agent = FunctionAgent(factory=hasty)
        async with aclosing(record_episodes(config.env, agent, tasks, opened, options=options)) as episodes:
            solved = [bool(episode.success) async for episode in episodes]
    if solved:
        print(f"{len(solved)} demonstrations, {sum(solved) / len(solved):.1%} of them solved")


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--short", action="store_true", help="run only a few steps")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--out", default="runs/apps", help="output folder")
    said = words.parse_args()
    out = Path(said.out)

    def settings(word: str) -> list[str]:
        return [f"out={out}/{word}", f"seed={said.seed}", *(SHORT[word] if said.short else ())]

    learnt = tw.load_config(LoopConfig, CONFIGS / "loop-apps.toml", [f"model={out}/bc/model", *settings("loop")])
    asyncio.run(demonstrate(learnt, out / "demonstrations", 12 if said.short else DEMONSTRATIONS, said.seed))
    shown = f"demonstrations.store={out}/demonstrations"
    tw.train(tw.load_config(CloningConfig, CONFIGS / "bc-apps.toml", [shown, *settings("bc")]))
    tw.train(learnt)
    for word in ("bc", "loop"):
        for split in ("test_iid", "test_entity"):
            found = tw.evaluate(
                learnt.env,
                agent_from(f"{out}/{word}/model", max_batch=128),
                env_kwargs=learnt.episodes.env_kwargs,
                n=4 if said.short else 300,
                splits=split,
                levels=1,
                concurrency=100,
                out=out / f"eval-{word}-{split}",
                overwrite=True,
            ).success
            print(f"{word:5} {split:12} success {found.value:6.1%}  ({found.low:.1%} – {found.high:.1%})")


if __name__ == "__main__":
    main()
