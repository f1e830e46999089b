"""Rows of single utterances: a prompt and its response, without an episode around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import ContractError
from ...rollouts.rows import CONTEXT
from .rows import Rows


@dataclass(frozen=True, slots=True)
class Utterance:
    """One utterance.

    Args:
        prompt_ids: exactly what the policy read.
        action_ids: exactly what it sampled, stop id included.
        logprobs: log-probability of each action id under the behavior policy.
        version: policy version that sampled it.
    """

    prompt_ids: tuple[int, ...]
    action_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int = 0


def merge_equal(utterances: Sequence[Utterance], value_B: Tensor) -> tuple[list[Utterance], Tensor, Tensor]:
    """Merge utterances of equal prompt and action ids into the first of them.

    All must be samples of one policy, and the loss linear in their values. Weighted by their numbers, the merged ones
    then give the same gradient, up to rounding.

    Args:
        utterances: B utterances.
        value_B: a value of each, ``[B]``.

    Returns:
        The M different utterances, the mean value of each, ``[M]``, and how many were merged into it, ``[M]``.
    """
    places: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for place, said in enumerate(utterances):
        places.setdefault((said.prompt_ids, said.action_ids), []).append(place)
    different = [utterances[equal[0]] for equal in places.values()]
    value_M = torch.stack([value_B[equal].mean() for equal in places.values()])
    return different, value_M, torch.tensor([float(len(equal)) for equal in places.values()])


def pack_utterances(utterances: Sequence[Utterance]) -> Rows:
    """Pack rows in which every utterance is an episode, a turn and a group of its own, in the given order.

    Raises:
        ContractError: an utterance without prompt or action ids, or without one log-probability per action id.
    """
    for place, said in enumerate(utterances):
        if not said.prompt_ids or not said.action_ids or len(said.logprobs) != len(said.action_ids):
            raise ContractError(
                f"utterance {place} has {len(said.prompt_ids)} prompt ids, {len(said.action_ids)} action ids and "
                f"{len(said.logprobs)} log-probabilities: it needs some ids of both, and one of the last per action id"
            )
    sizes = torch.tensor([len(u.prompt_ids) + len(u.action_ids) for u in utterances], dtype=torch.long)
    ids = torch.tensor([i for u in utterances for i in (*u.prompt_ids, *u.action_ids)], dtype=torch.long)
    logp = torch.tensor(
        [p for u in utterances for p in (*(0.0,) * len(u.prompt_ids), *u.logprobs)], dtype=torch.float32
    )
    said_T = [s for u in utterances for s in (*(False,) * len(u.prompt_ids), *(True,) * len(u.action_ids))]
    mask = torch.tensor(said_T, dtype=torch.bool)
    number = torch.arange(len(utterances)).repeat_interleave(sizes)
    version = torch.tensor([u.version for u in utterances], dtype=torch.long).repeat_interleave(sizes)
    return Rows(
        ids=ids,
        mask=mask,
        logp_behave=logp,
        logp_old=logp.clone(),
        logp_ref=torch.zeros_like(logp),
        entropy=torch.zeros_like(logp),
        version=torch.where(mask, version, CONTEXT),
        turn=torch.where(mask, number, CONTEXT),
        row=number,
        episode=number.clone(),
        group=number.clone(),
        advantage=torch.zeros_like(logp),
        weight=torch.zeros_like(logp),
    )
