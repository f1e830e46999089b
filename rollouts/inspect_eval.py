"""Write episodes as a log of inspect (``.eval``, version 2), which its viewer, its extension and its analyses read.

The file is a zip archive of JSON: ``header.json``, one file per sample, and their summaries. An episode is a sample;
episodes of one task are its epochs. One that failed for other reasons than the agent's has an error and no score.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..envs.messages import ImagePart, Message, Part, TextPart
from ..envs.plain_json import plain
from ..tasks.rng import stable_hash
from ..tasks.spec import TaskSpec
from .chat_jsonl import with_call_ids
from .episode import Episode

VERSION = 2
"""Version of the format."""
SCORER = "success"
STOP = {"stop": "stop", "length": "max_tokens"}
"""Inspect's reasons for the end of a completion."""
ODD = re.compile(r"[^\w.-]+")


@dataclass(slots=True)
class _Written:
    """Everything that the header needs to know of the samples."""

    ids: list[str] = field(default_factory=list)
    summaries: list[dict[str, Any]] = field(default_factory=list)
    epochs: Counter[str] = field(default_factory=Counter)
    won: int = 0
    scored: int = 0
    envs: Counter[str] = field(default_factory=Counter)


def write_eval(path: Path, episodes: Iterable[Episode], *, model: str = "turnwise") -> int:
    """Write a log, and return the number of its samples.

    Args:
        path: file to write, which must not exist; the name should end in ``.eval``.
        episodes: episodes of one store; one is in memory at a time.
        model: name of the policy, as the viewer shows it.

    Raises:
        FileExistsError: the file exists.
    """
    written, now = _Written(), datetime.now(UTC).isoformat(timespec="seconds")
    with zipfile.ZipFile(path, "x", zipfile.ZIP_DEFLATED) as archive:
        for episode in episodes:
            id = _id(episode.task)
            written.epochs[id] += 1
            sample = sample_of(episode, id, written.epochs[id], model)
            _put(archive, f"samples/{id}_epoch_{sample['epoch']}.json", sample)
            _count(written, episode, sample)
        header = _header(written, now, model)
        start = {name: header[name] for name in ("version", "eval", "plan")}
        _put(archive, "_journal/start.json", start)
        _put(archive, "_journal/summaries/1.json", written.summaries)
        _put(archive, "summaries.json", written.summaries)
        _put(archive, "header.json", header)
    return len(written.summaries)


def sample_of(episode: Episode, id: str, epoch: int, model: str) -> dict[str, Any]:
    """Return an episode as a sample.

    Args:
        episode: any episode.
        id: id of its task in the log.
        epoch: number of the attempt at this task, from 1.
        model: name of the policy.
    """
    messages = _messages(episode)
    first = next((i for i, each in enumerate(messages) if each["role"] == "assistant"), len(messages))
    last = next((each for each in reversed(messages) if each["role"] == "assistant"), None)
    sample: dict[str, Any] = {
        "id": id,
        "epoch": epoch,
        "input": messages[:first],
        "target": "",
        "messages": messages,
        "output": {"model": model, "choices": []},
        "metadata": {
            "episode_id": episode.episode_id,
            "env": episode.env_id,
            "task": asdict(episode.task) | {"split": str(episode.task.split)},
            "outcome": str(episode.outcome),
            "turns": len(episode.turns),
            "fingerprints": dict(episode.fingerprints),
        },
        "total_time": episode.seconds,
        "store": {},
        "events": [],
        "model_usage": _usage(episode, model),
    }
    if last is not None:
        stop = STOP.get(str(episode.turns[-1].finish), "unknown")
        sample["output"]["choices"] = [{"message": last, "stop_reason": stop}]
    if episode.scored:
        checks = dict(episode.score.checks) if episode.score is not None else {}
        score = {"value": float(episode.success), "metadata": {"return": episode.total_reward, "checks": checks}}
        sample["scores"] = {SCORER: score}
    else:
        error = episode.error or str(episode.outcome)
        sample["error"] = {"message": error, "traceback": error, "traceback_ansi": error}
    return sample


def _messages(episode: Episode) -> list[dict[str, Any]]:
    """Return the conversation, with the model's reasoning; drafts that the environment never received are left out."""
    said: list[Message] = []
    thoughts: dict[int, str] = {}
    for turn in episode.turns:
        said += turn.observation.messages
        if turn.sent:
            thoughts[len(said)] = turn.thoughts
            said.append(turn.action.message)
    if episode.final_observation is not None:
        said += episode.final_observation.messages
    return [_message(each, thoughts.get(index, "")) for index, each in enumerate(with_call_ids(said))]


def _message(message: Message, thoughts: str) -> dict[str, Any]:
    content: Any = message.text
    if thoughts or any(isinstance(part, ImagePart) for part in message.parts):
        content = [{"type": "reasoning", "reasoning": thoughts}] if thoughts else []
        content += [_part(part) for part in message.parts]
    made: dict[str, Any] = {"role": message.role, "content": content}
    if message.role == "tool":
        made |= {"tool_call_id": message.tool_call_id, "function": message.name}
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "function": str(call.name),
                "arguments": dict(call.arguments) if isinstance(call.arguments, Mapping) else {},
                "type": "function",
            }
            for call in message.tool_calls
        ]
    return made


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    return {"type": "image", "image": part.data_url}


def _usage(episode: Episode, model: str) -> dict[str, Any]:
    read = sum(len(turn.prompt_ids) for turn in episode.own_turns)
    wrote = sum(len(turn.action_ids) for turn in episode.own_turns)
    if not wrote:
        return {}
    return {model: {"input_tokens": read, "output_tokens": wrote, "total_tokens": read + wrote}}


def _count(written: _Written, episode: Episode, sample: Mapping[str, Any]) -> None:
    if sample["id"] not in written.ids[-1:] and written.epochs[sample["id"]] == 1:
        written.ids.append(sample["id"])
    written.envs[episode.env_id] += 1
    if episode.scored:
        written.scored += 1
        written.won += episode.success
    kept = ("id", "epoch", "input", "target", "scores", "model_usage", "total_time")
    summary = {name: sample[name] for name in kept if name in sample} | {"metadata": {}, "completed": True}
    summary["message_count"] = len(sample["messages"])
    if "error" in sample:
        summary["error"] = sample["error"]["message"]
    written.summaries.append(summary)


def _header(written: _Written, now: str, model: str) -> dict[str, Any]:
    env = written.envs.most_common(1)[0][0] if written.envs else "empty"
    mark = stable_hash("inspect", env, now, *written.ids).hex()
    total = len(written.summaries)
    accuracy = written.won / written.scored if written.scored else float("nan")
    score = {
        "name": SCORER,
        "scorer": SCORER,
        "scored_samples": written.scored,
        "unscored_samples": total - written.scored,
        "params": {},
        "metrics": {"accuracy": {"name": "accuracy", "value": accuracy, "params": {}}} if written.scored else {},
    }
    return {
        "version": VERSION,
        "status": "success",
        "eval": {
            "eval_id": mark[:22],
            "run_id": mark[22:44],
            "created": now,
            "task": env,
            "task_id": mark[44:60],
            "task_version": 0,
            "task_attribs": {},
            "task_args": {},
            "dataset": {"name": env, "samples": len(written.ids), "sample_ids": written.ids, "shuffled": False},
            "model": model,
            "model_args": {},
            "config": {"epochs": max(written.epochs.values(), default=1)},
            "packages": {"turnwise": importlib.metadata.version("turnwise")},
        },
        "plan": {"name": "plan", "steps": [], "config": {}},
        "results": {"total_samples": total, "completed_samples": written.scored, "scores": [score]},
        "stats": {"started_at": now, "completed_at": now, "model_usage": {}},
    }


def _id(task: TaskSpec) -> str:
    return ODD.sub("-", f"{task.family}-{task.template}-{task.level}-{task.split}-{task.seed}")


def _put(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    archive.writestr(name, json.dumps(value, default=plain))
