"""Compare the cost of a critic that reads each row once with one that reads every prompt apart.

Both critics are nano encoders of one shape. They make the same TD updates of ArCHer, with a fresh utterance per state,
on episodes whose prompts grow with every turn. They alternate in one process with one thread. The cost is processor
time per transition of an update, with everything that an update does: targets of the slow copy, gradients, optimizer.

Run: python benchmarks/archer_critic.py
     python benchmarks/archer_critic.py --turns 5 --utterances 8
"""

from __future__ import annotations

import argparse
import random
import statistics
import time

import torch

from turnwise.tasks.rng import Rng
from turnwise.trainers.algorithms.archer import ArcherRule
from turnwise.trainers.critics.causal_encoder import CausalEncoder, nano_backbone
from turnwise.trainers.critics.encoder import EncoderConfig, NanoEncoder
from turnwise.trainers.critics.replay import Replay
from turnwise.trainers.critics.transitions import Transition
from turnwise.trainers.critics.utterance import CriticConfig, UtteranceCritic

VOCABULARY, CONTEXT = 300, 2048
SAID, ANSWERED = 6, 14
"""Tokens of an utterance, and of what the environment says next."""


def episode(number: int, turns: int, prompt: int, draw: random.Random) -> list[Transition]:
    """Return the transitions of an episode whose prompts have ``prompt`` tokens on average."""

    def some(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(VOCABULARY) for _ in range(count))

    state = some(prompt - (turns - 1) * (SAID + ANSWERED) // 2)
    found = []
    for turn in range(turns):
        action, done = some(SAID), turn == turns - 1
        after = () if done else (*state, *action, *some(ANSWERED))
        returned = -(0.95 ** (turns - turn)) + draw.random()
        found.append(Transition(state, action, (-1.0,) * SAID, -1.0, after, done, returned, 0, str(number), turn))
        state = after
    return found


def critic(kind: str) -> UtteranceCritic:
    """Return a critic with the default shape."""
    config = EncoderConfig()
    if kind == "nano":
        return UtteranceCritic(NanoEncoder(config, vocabulary=VOCABULARY, context=CONTEXT), CriticConfig())
    return UtteranceCritic(CausalEncoder(nano_backbone(config, vocabulary=VOCABULARY, context=CONTEXT)), CriticConfig())


def main() -> None:
    """Print milliseconds of processor time per transition, and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--prompt", type=int, default=200, help="mean tokens of a prompt")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--utterances", type=int, default=4, help="utterances per state to compute advantages of")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    draw = random.Random(0)
    replay = Replay(100_000)
    for number in range(options.episodes):
        replay.add(episode(number, options.turns, options.prompt, draw))
    critics = {kind: critic(kind) for kind in ("nano", "causal")}
    spent: dict[tuple[str, str], list[float]] = {}
    for repeat in range(options.repeats + 1):
        for kind, each in critics.items():
            rng = Rng("archer-critic", repeat)
            sample = replay.sample_rows if each.reads_rows else replay.sample
            batch = sample(options.batch, rng)
            fresh = [tuple(draw.randrange(VOCABULARY) for _ in range(SAID)) for _ in batch]
            start = time.process_time()
            each.update(batch, ArcherRule("td"), fresh)
            updated = time.process_time()
            states = [t.state_ids for t in replay.sample(options.batch // options.utterances, rng)]
            asked = [state for state in states for _ in range(options.utterances)]
            each.advantage(asked, fresh[: len(asked)])
            if repeat:  # the first warms up
                spent.setdefault(("update", kind), []).append((updated - start) / len(batch))
                spent.setdefault(("advantage", kind), []).append((time.process_time() - updated) / len(asked))
    print(f"{options.batch} transitions, {options.turns} turns, prompts of {options.prompt} tokens on average")
    for what in ("update", "advantage"):
        nano, causal = (1000 * statistics.median(spent[what, kind]) for kind in critics)
        print(f"{what}: nano {nano:.2f} ms, causal {causal:.2f} ms each: {nano / causal:.1f} times cheaper")


if __name__ == "__main__":
    main()
