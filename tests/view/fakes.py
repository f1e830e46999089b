"""Folders of runs as training and evaluation write them, without a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import turnwise as tw
from turnwise.rollouts.episode import Fork, Lookahead
from turnwise.rollouts.learner_records import LearnerRecord, LearnerTurn, write_records
from turnwise.rollouts.store import EpisodeStore
from turnwise.tasks.score import Score
from turnwise.tasks.spec import Split, TaskSpec

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cfc0f01f0005000"
    "1ffa2d39e9c0000000049454e44ae426082"
)
LONGER = ("go north", "open door", "take key")


def said(role: Any, *parts: Any, name: str | None = None) -> tw.Message:
    made = tuple(tw.TextPart(part) if isinstance(part, str) else part for part in parts)
    return tw.Message(role, made, name=name)


def turn(
    text: str, reward: float = 0.0, *, see: str = "You are in a room.", last: bool = False, **more: Any
) -> tw.Turn:
    tokens = tuple(range(3, 3 + len(text.split())))
    return tw.Turn(
        observation=tw.Observation((said("user", see),)),
        action=more.pop("action", tw.Action(text)),
        reward=reward,
        terminated=last,
        prompt_ids=(1, 2),
        action_ids=tokens,
        logprobs=tuple(-0.4 * n for n in range(len(tokens))),
        versions=tuple(min(n, 1) for n in range(len(tokens))),
        **more,
    )


def episode(
    id: str, texts: Sequence[str] = ("go north", "open door"), *, success: bool = True, **more: Any
) -> tw.Episode:
    turns = more.pop("turns", None)
    if turns is None:
        turns = [
            turn(text, float(success and n == len(texts) - 1), last=n == len(texts) - 1) for n, text in enumerate(texts)
        ]
    level, template, split = more.pop("level", 1), more.pop("template", "rooms"), more.pop("split", Split.TRAIN)
    values: dict[str, Any] = {
        "env_id": "turnwise/Maze-v0",
        "task": TaskSpec("maze", template, level, 7, split),
        "group_id": "g1",
        "outcome": tw.Outcome.COMPLETED,
        "score": Score(success, {"reached": success, "in time": True}),
        "seconds": 1.5,
        "fingerprints": {"step": "3"},
    }
    return tw.Episode(episode_id=id, turns=tuple(turns), **values | more)


def store(path: Path, episodes: Sequence[tw.Episode], *, per_part: int = 2, run: dict[str, Any] | None = None) -> Path:
    with EpisodeStore(path, flush_every=per_part, run=run) as opened:
        for each in episodes:
            opened.append(each)
    return path


def learned(path: Path, episodes: Sequence[tw.Episode]) -> Path:
    """Write a learner's numbers beside a store: advantages that change sign, values that rise, clips of each kind."""
    records = []
    for each in episodes:
        turns = []
        for at, one in enumerate(each.turns):
            count = len(one.action_ids)
            advantages = tuple((-1.0) ** n * (n + 1) / 2 for n in range(count))
            logprobs = tuple(logprob - 0.25 for logprob in one.logprobs)
            low, high = tuple(n % 2 for n in range(count)), tuple(2 * (at == 1 and n == 0) for n in range(count))
            turns.append(LearnerTurn(advantages, (0.5,) * count, logprobs, at / 4, low, high))
        records.append(LearnerRecord(each.episode_id, 3, tuple(turns), 2))
    write_records(path, records)
    return path


def line(step: int, **more: float) -> str:
    """One line of metrics as the training loop writes it."""
    numbers = {
        "episodes": 16.0,
        "success": step / 20,
        "return": step / 20,
        "loss": 1 / (step + 1),
        "entropy": 2.0 - step / 20,
        "kl_k3": 0.001 * step,
        "grad_norm": 1.0,
        "turns": 8.0,
        "tokens_per_second": 900.0 + step,
        "seconds/sync": 0.1,
        "seconds/collect": 6.0 if step == 7 else 1.0,
        "seconds/learn": 0.5,
        "seconds/critic": 0.2,
        "seconds/step": 6.7 if step == 7 else 1.7,
        "idle/learner": 0.7,
        "idle/policy": 0.4,
        "memory/rss_gib": 0.8,
    }
    return json.dumps({"step": step, **numbers, **more}) + "\n"


def training(path: Path, *, steps: int = 10, done: int = 10, end: str | None = "finished", **config: Any) -> Path:
    """A run's folder; ``end=None`` leaves what a SIGKILL leaves."""
    path.mkdir(parents=True)
    settings = {
        "env": "turnwise/Maze-v0",
        "seed": 0,
        "steps": steps,
        "optimizer": {"lr": 1e-3},
        "eval": {"episodes": 50},
    }
    about = {
        "algorithm": "loop",
        "config": settings | config,
        "made": {"command": "turnwise train loop", "date": "2026-11-24"},
    }
    (path / "config.json").write_text(json.dumps(about))
    (path / "_lock").touch()
    lines = []
    for step in range(1, done + 1):
        lines.append(line(step))
        if step % 5 == 0:
            lines.append(
                json.dumps({"step": step, "eval/success": step / 25, "eval/episodes": 50.0, "seconds/evaluate": 0.8})
                + "\n"
            )
    (path / "metrics.jsonl").write_text("".join(lines))
    if end is not None:
        error = "DivergedError: the loss was not finite" if end == "failed" else ""
        (path / "_end.json").write_text(json.dumps({"state": end, "error": error}))
    return path


def family() -> list[tw.Episode]:
    """A group of three, a fork of its first and a fork of that fork, and an infrastructure failure."""
    first = episode("e0", LONGER, seconds=2.0)
    called = tw.Action("", (tw.ToolCall("search", {"query": "key"}, "c1"),))
    second = episode(
        "e1",
        turns=[turn("go north"), turn("search", action=called), turn("wait here", last=True)],
        success=False,
        level=2,
    )
    third = episode("e2", ("go north", "open door", "leave"), success=False, level=2, split=Split.DEV)
    fork = episode(
        "e0-fork",
        turns=[*first.turns[:1], turn("break door", -0.5, last=True)],
        success=False,
        fork=Fork("e0", ("e0",)),
    )
    deep = episode(
        "e0-fork-2",
        turns=[*fork.turns[:1], turn("kick door", 1.0, last=True)],
        fork=Fork("e0-fork", ("e0",)),
        group_id="g2",
    )
    valued = tw.Episode(
        **{name: getattr(first, name) for name in first.__dataclass_fields__}
        | {"lookaheads": (Lookahead(1, (1.0,), tw.Outcome.COMPLETED), Lookahead(1, (0.0,), tw.Outcome.COMPLETED))}
    )
    lost = episode(
        "lost", (), outcome=tw.Outcome.INFRA_FAILED, score=None, error="EnvironmentTimeoutError: no answer in 120 s"
    )
    return [valued, second, third, fork, deep, lost]
