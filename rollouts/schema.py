"""The columns of an episode: one row is one episode, and its turns are a list of structs.

There is no map among them: Hugging Face ``datasets`` has no such type. ``checks`` and ``fingerprints`` are lists of
pairs, which duckdb's ``map_from_entries`` turns into maps.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from ..envs.step import OUT_OF_TURNS

_CALLS = pa.list_(pa.struct({"name": pa.string(), "arguments": pa.string(), "id": pa.string()}))
_PART = pa.struct({"text": pa.string(), "image": pa.binary(), "mime": pa.string()})
_MESSAGE = pa.struct(
    {
        "role": pa.string(),
        "parts": pa.list_(_PART),
        "tool_calls": _CALLS,
        "name": pa.string(),
        "tool_call_id": pa.string(),
    }
)
_OBSERVATION = pa.list_(_MESSAGE)
_TURN = pa.struct(
    {
        "observation": _OBSERVATION,
        "action": pa.struct({"text": pa.string(), "tool_calls": _CALLS, "problem": pa.string()}),
        "reward": pa.float64(),
        "terminated": pa.bool_(),
        "truncated": pa.bool_(),
        "prompt_ids": pa.list_(pa.int64()),
        "action_ids": pa.list_(pa.int64()),
        "logprobs": pa.list_(pa.float64()),
        "versions": pa.list_(pa.int64()),
        "finish": pa.string(),
        "seat": pa.string(),
        "seconds_policy": pa.float64(),
        "seconds_env": pa.float64(),
        "obs_key": pa.string(),
        "info": pa.string(),
    }
)
_CHECKS = pa.list_(pa.struct({"name": pa.string(), "value": pa.bool_()}))
_TEXTS = pa.list_(pa.struct({"name": pa.string(), "value": pa.string()}))
SCHEMA = pa.schema(
    {
        "episode_id": pa.string(),
        "group_id": pa.string(),
        "env_id": pa.string(),
        "task": pa.struct(
            {
                "family": pa.string(),
                "template": pa.string(),
                "level": pa.int64(),
                "seed": pa.int64(),
                "split": pa.string(),
            }
        ),
        "outcome": pa.string(),
        "success": pa.bool_(),
        "total_reward": pa.float64(),
        "turns": pa.list_(_TURN),
        "final_observation": _OBSERVATION,
        "score": pa.struct(
            {
                "success": pa.bool_(),
                "checks": _CHECKS,
                "collateral": pa.list_(pa.string()),
                "violations": pa.list_(pa.string()),
            }
        ),
        "error": pa.string(),
        "attempts": pa.int64(),
        "seconds": pa.float64(),
        "fingerprints": _TEXTS,
        "final_prompt_ids": pa.list_(pa.int64()),
        "fork": pa.struct({"parent": pa.string(), "owners": pa.list_(pa.string())}),
        "lookaheads": pa.list_(
            pa.struct(
                {
                    "turn": pa.int64(),
                    "rewards": pa.list_(pa.float64()),
                    "outcome": pa.string(),
                    "sampled": pa.int64(),
                    "prompted": pa.int64(),
                    "reused": pa.int64(),
                    "tool_calls": pa.int64(),
                }
            )
        ),
        "thoughts": pa.list_(pa.string()),
        "after_action": pa.int64(),
        "redrawn": pa.int64(),
        "out_of_turns": pa.bool_(),
    }
)
ADDED = ("fork", "lookaheads", "thoughts", "after_action", "redrawn", "out_of_turns")
"""Columns that stores made before them do not have; they are then null, which stands for "none"."""


def up_to_date(table: pa.Table) -> pa.Table:
    """Convert a table of an older store: add columns, turn maps into lists of pairs, end tasks at their turn limit."""
    limits_truncated = "out_of_turns" not in table.schema.names
    for name in ADDED:
        if name not in table.schema.names:
            table = table.append_column(SCHEMA.field(name), pa.nulls(table.num_rows, SCHEMA.field(name).type))
    kinds = {field.name: field.type for field in table.schema}
    if pa.types.is_map(kinds.get("fingerprints", pa.null())):
        table = _replaced(table, "fingerprints", [_pairs(row) for row in table["fingerprints"].to_pylist()])
    score = kinds.get("score", pa.null())
    if (
        pa.types.is_struct(score)
        and score.get_field_index("checks") >= 0
        and pa.types.is_map(score.field("checks").type)
    ):
        rows = table["score"].to_pylist()
        table = _replaced(table, "score", [row and row | {"checks": _pairs(row["checks"])} for row in rows])
    return _ended(table) if limits_truncated and {"outcome", "success", "turns"} <= set(kinds) else table


def _ended(table: pa.Table) -> pa.Table:
    """Terminate truncated episodes. Until version 3, the task's own turn limit was recorded as a truncation.

    Limits that the run set look the same in such stores and are converted too: their last state is not valued.
    """
    outcomes = table["outcome"].to_pylist()
    cut = [outcome == "truncated" for outcome in outcomes]
    known = table["success"].is_valid().to_pylist()
    table = _replaced(table, "out_of_turns", [out if scored else None for out, scored in zip(cut, known, strict=True)])
    if not any(cut):
        return table
    turns = table["turns"].to_pylist()
    for number, row in enumerate(turns):
        if cut[number] and row:
            info = json.dumps({**json.loads(row[-1]["info"]), OUT_OF_TURNS: True})
            row[-1].update(terminated=True, truncated=False, info=info)
            outcomes[number] = "completed"
    return _replaced(_replaced(table, "outcome", outcomes), "turns", turns)


def _pairs(entries: list[tuple[str, Any]] | None) -> list[dict[str, Any]] | None:
    return None if entries is None else [{"name": name, "value": value} for name, value in entries]


def _replaced(table: pa.Table, name: str, rows: list[Any]) -> pa.Table:
    field = SCHEMA.field(name)
    return table.set_column(table.schema.get_field_index(name), field, pa.array(rows, field.type))
