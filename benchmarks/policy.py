"""Compare ``TransformersPolicy`` with ``model.generate``, one request at a time and in static batches.

Requests have prompts and answers of different lengths, as turns do. A static batch lasts as long as its longest
answer; continuous batching gives the place to the next request. All three sample the same number of useful tokens,
in one process, alternating. Seconds are of processor time, so that other programs on the machine count little. The last
table has the cost of a turn without the model, in wall time.

Run: python benchmarks/policy.py [--requests 128] [--rounds 3] [--threads 1]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from turnwise import Action, Observation, Rng, TaskSpec
from turnwise.agents.agent import EpisodeContext
from turnwise.agents.chat import ChatAgent
from turnwise.inference.nano import NanoConfig, Size, build_model, build_tokenizer
from turnwise.inference.policy import Completion, Finish, Sampling
from turnwise.inference.transformers_policy import TransformersPolicy

Request = tuple[list[int], int]


def workload(count: int, vocabulary: int, longest: int, seed: int = 0) -> list[Request]:
    """Prompts of 8 to 64 ids, each with the number of tokens to sample: 1 to ``longest``."""
    rng = random.Random(seed)
    return [
        ([rng.randrange(1, vocabulary) for _ in range(rng.randint(8, 64))], rng.randint(1, longest))
        for _ in range(count)
    ]


def continuous(model: Any, requests: list[Request], batch: int) -> None:
    """All requests at once; the policy decides who shares a pass."""

    async def run() -> None:
        policy = TransformersPolicy(model, max_batch=batch)
        policy._stop_ids = frozenset()  # every request samples exactly its number of tokens, here and below
        await asyncio.gather(*(policy.generate(prompt, Sampling(max_tokens=n, seed=0)) for prompt, n in requests))

    asyncio.run(run())


def static(model: Any, requests: list[Request], batch: int) -> None:
    """``model.generate`` in batches in order of arrival, each as long as its longest answer."""
    for start in range(0, len(requests), batch):
        part = requests[start : start + batch]
        width = max(len(prompt) for prompt, _ in part)
        ids = torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in part])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in part])
        model.generate(ids, attention_mask=mask, max_new_tokens=max(n for _, n in part), **GENERATE)


GENERATE: dict[str, Any] = {
    "do_sample": True,
    "top_k": 0,
    "eos_token_id": None,
    "output_logits": True,
    "return_dict_in_generate": True,
    "disable_compile": True,
}


def compare(size: Size, longest: int, arguments: argparse.Namespace) -> None:
    """One line per way of sampling."""
    tokenizer = build_tokenizer("byte")
    model = build_model(NanoConfig(tokenizer="byte", size=size), tokenizer)
    requests = workload(arguments.requests, len(tokenizer), longest)
    useful = sum(n for _, n in requests)
    ways: dict[str, Callable[[], None]] = {
        "generate, one at a time": lambda: static(model, requests, 1),
        "generate, static batches of 32": lambda: static(model, requests, 32),
        "TransformersPolicy, max_batch 32": lambda: continuous(model, requests, 32),
        "TransformersPolicy, max_batch 128": lambda: continuous(model, requests, 128),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(arguments.rounds):
        for name, way in ways.items():
            began = time.process_time()
            way()
            seconds[name].append(time.process_time() - began)
    base = statistics.median(seconds["generate, static batches of 32"])
    print(f"\n{size} model, {len(requests)} requests, answers of 1 to {longest} tokens ({useful} in all)")
    for name, taken in seconds.items():
        middle = statistics.median(taken)
        print(f"  {name:36} {useful / middle:8.0f} tok per CPU second   {base / middle:5.2f} × static")


class Instant:
    """A policy that answers immediately: the rest of a turn's time is the agent's."""

    async def generate(self, prompt_ids: Any, sampling: Sampling, *, session: str = "") -> Completion:
        return Completion((5, sampling.stop_ids[0]), (-0.1, -0.1), (0, 0), Finish.STOP)


def overhead(turns: int = 20, episodes: int = 50) -> None:
    """Milliseconds per turn of a ``ChatAgent`` besides the policy; with new words every turn, and with known ones."""
    words = [f"You see a wall at {i} m." for i in range(turns * episodes)]
    tokenizer = build_tokenizer("word", words)
    print("\nown time per turn, median over episodes of 20 turns")
    for context in ("full", "last:1", "summary"):
        agent = ChatAgent(Instant(), tokenizer, context=context)
        for name, repeated in (("tokenising new text", False), ("text seen before", True)):
            taken = [asyncio.run(_episode(agent, words, 0 if repeated else e, turns)) for e in range(episodes)]
            print(f"  context {context:8} {name:20} {statistics.median(taken) * 1000 / turns:6.3f} ms")


async def _episode(agent: ChatAgent, words: list[str], number: int, turns: int) -> float:
    async def nothing(*_: int) -> Action:
        return Action()

    session = agent.start(EpisodeContext(str(number), "bench", TaskSpec("bench"), (), Rng(number), nothing, nothing))
    began, away = time.perf_counter(), 0.0
    for turn in range(turns):
        away += (await session.act(Observation.of(words[number * turns + turn]))).seconds
    return time.perf_counter() - began - away


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    sizes: tuple[Size, ...] = ("0.1M", "2M")
    for size in sizes:
        for longest in (2, 32):
            compare(size, longest, arguments)
    overhead()


if __name__ == "__main__":
    main()
