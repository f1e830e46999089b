"""A doubly robust policy gradient for ArCHer: outcomes decide the direction, and the critic's Q takes variance away.

For a state s of a recent turn, with its recorded utterance a (sampled by an older policy μ), its outcome G, and fresh
utterances ã of the present policy π::

    g = ρ(a) ∇log π(a|s) · (G − V(s) − c·h(s, a))  +  mean over ã of ∇log π(ã|s) · c·h(s, ã),     ρ = π(a|s) / μ(a|s)

with the critic's advantage ``h = min Q − min V`` as control variate. Since ``E_μ[ρ ∇log π · h] = E_π[∇log π · h]``, the
two terms with h cancel on average. Whatever a Q says that has not seen these outcomes, the expected gradient is that of
the outcomes (Jiang and Li, arXiv 1511.03722; Gu et al., "Q-Prop", arXiv 1611.02247). So a wrong Q costs
variance and not direction, while ArCHer's own actor follows Q alone. V(s) is a baseline and cancels, too. A
fitted c costs little variance either: the more turns it is measured on, the closer it is to 0 where h and
the outcomes do not agree.

What remains biased: with λ < 1 the outcome contains V of later states, and later turns are those of μ. The terms with h
cancel exactly for turns of the present policy. For older ones they do with ``loss.ratio_level = "turn"``, as long as
nothing is clipped. Ratios per token (the default) are not ρ for an utterance of several tokens, and PPO's
clip falls on the recorded term alone. What then remains of h grows with the age of the turns and with Q's error. Q has
also learned from the outcomes that it is compared with. If it memorized them, the step would shrink, or turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pydantic
import torch
from torch import Tensor

from ...config import Config
from ..critics.returns import explained, lambda_returns
from ..critics.transitions import Transition
from ..critics.utterance import UtteranceCritic
from ..learning.rows import Rows
from ..learning.utterances import Utterance, pack_utterances

Control = float | Literal["fitted"]
"""Share of Q, or how to find it."""


class DoublyRobustConfig(Config):
    """The actor that learns from outcomes of recent turns, with Q as control variate."""

    max_age: int = pydantic.Field(default=3, ge=0)
    """Age of the oldest recorded turns, in policy versions; 0 uses those of the present step alone."""
    lam: float = pydantic.Field(default=0.95, ge=0, le=1)
    """λ per turn of the outcome: 1 is the recorded return, and 0 is r + γ V(s′)."""
    control: Control = 1.0
    """Share c of Q that is used as control variate; 0 learns from outcomes alone. ``fitted`` measures in each step
    which share takes the most variance away, for the turns of each half of the episodes on the other half."""

    @pydantic.field_validator("control", mode="before")
    @classmethod
    def _is_share_or_fitted(cls, given: object) -> object:
        share = isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1
        if not share and given != "fitted":
            raise ValueError(f"must be a number from 0 to 1, or fitted; got {given!r}")
        return given


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Recent turns, and how each turned out.

    Args:
        turns: the N turns.
        advantage_N: ``G − V(s)``, ``[N]``.
        control_N: the critic's advantage ``h(s, a)`` of the recorded utterance, ``[N]``.
        share_N: c, the share of h that is used in the state of each turn, ``[N]``.
    """

    turns: tuple[Transition, ...]
    advantage_N: Tensor
    control_N: Tensor
    share_N: Tensor

    def recorded(self, *, centered: bool) -> Tensor:
        """Return the advantage of each recorded utterance, ``G − V(s) − c·h(s, a)``, ``[N]``.

        Args:
            centered: whether to subtract the means over turns of h and of the result: errors of V or Q that all turns
                share would only add variance.
        """
        if not centered:
            return self.advantage_N - self.share_N * self.control_N
        rest_N = self.advantage_N - self.share_N * (self.control_N - self.control_N.mean())
        return rest_N - rest_N.mean()

    def metrics(self, version: int) -> dict[str, float]:
        """Return the number and mean age of the turns, c, and the share of the outcomes' variance that c·h explains.

        Args:
            version: the present policy version.
        """
        return {
            "actor/recorded": float(len(self.turns)),
            "actor/age": sum(version - turn.version for turn in self.turns) / len(self.turns),
            "actor/control": float(self.share_N.mean()),
            "actor/explained": explained(self.advantage_N, self.share_N * self.control_N),
        }


def outcomes(
    turns: Sequence[Transition],
    critic: UtteranceCritic,
    *,
    gamma: float,
    lam: float,
    control: Control = 1.0,
    utterances: int = 1,
) -> Outcomes:
    """Return the outcomes ``G = r + γ N`` of turns, where N is the λ-return from the next state on.

    Args:
        turns: recent turns; those of an episode stand in order.
        critic: source of V and of the control variate.
        gamma: discount per turn.
        lam: λ per turn.
        control: c, or ``fitted``.
        utterances: fresh utterances in each state.
    """
    outcome_N, value_N = lambda_returns(turns, critic, gamma=gamma, lam=lam)
    advantage_N = (outcome_N - value_N).float()
    control_N = critic.advantage([turn.state_ids for turn in turns], [turn.action_ids for turn in turns])
    if control == "fitted":
        share_N = fitted(turns, advantage_N, control_N, utterances)
    else:
        share_N = torch.full_like(advantage_N, control)
    return Outcomes(tuple(turns), advantage_N, control_N, share_N)


def fitted(turns: Sequence[Transition], advantage_N: Tensor, control_N: Tensor, utterances: int) -> Tensor:
    """Return c of each turn, ``[N]``: the share of h that leaves the least variance, measured on other episodes.

    With m fresh utterances per state, both terms together vary as ``Var(A − c·h) + c²·Var(h) / m`` if the gradients of
    all log-probabilities are equally long. The least is at ``c = Cov(A, h) / (Var(h) · (1 + 1/m))``, kept within 0 and
    1. Every second episode is fitted on the others, so that c depends on a turn's own outcome only through Q, and the
    terms with h still cancel on average for a Q that has not seen it.

    Args:
        turns: N turns.
        advantage_N: ``A = G − V(s)``, ``[N]``.
        control_N: ``h(s, a)``, ``[N]``.
        utterances: m.
    """
    order = {episode: place for place, episode in enumerate(dict.fromkeys(turn.episode_id for turn in turns))}
    half_N = torch.tensor([order[turn.episode_id] % 2 for turn in turns], device=advantage_N.device)
    share_N = torch.zeros_like(advantage_N)
    for half in (0, 1):
        others_N = half_N != half
        if others_N.any():
            share_N[~others_N] = _best_share(advantage_N[others_N], control_N[others_N], utterances)
    return share_N


def _best_share(advantage_N: Tensor, control_N: Tensor, utterances: int) -> float:
    """``Cov(A, h) / (Var(h) · (1 + 1/m))`` within 0 and 1; 0 if h is constant."""
    wide_N = control_N.double()
    apart_N = wide_N - wide_N.mean()
    if apart_N.abs().max() <= 1e-6 * wide_N.abs().max():  # nothing but rounding
        return 0.0
    agreement = float(((advantage_N.double() - advantage_N.double().mean()) * apart_N).mean())
    return min(max(agreement / float(apart_N.square().mean()) / (1 + 1 / utterances), 0.0), 1.0)


def combined(recorded: Sequence[Transition], fresh: Sequence[Utterance]) -> Rows:
    """Pack recorded and fresh utterances into rows, whose loss is the mean over states of the sum of both terms.

    Each of the n recorded utterances weighs 1/(2n), and each of the m fresh ones 1/(2m). The weights sum to 1, so that
    penalties on all tokens keep their size; ``with_terms`` makes up for the factor in the advantages. The old policy of
    a recorded utterance is the one that sampled it.

    Args:
        recorded: n recent turns.
        fresh: m fresh utterances, equally many in the state of each.
    """
    said = [Utterance(each.state_ids, each.action_ids, each.logprobs, each.version) for each in recorded]
    rows = pack_utterances([*said, *fresh])
    share_E = torch.tensor([1 / (2 * len(recorded))] * len(recorded) + [1 / (2 * len(fresh))] * len(fresh))
    return rows.with_weight(torch.where(rows.mask, share_E[rows.episode], 0.0))


def with_terms(rows: Rows, outcome_R: Tensor, fresh_F: Tensor) -> Rows:
    """Return ``combined`` rows with the advantages of recorded and of fresh utterances, ``[R]`` and ``[F]``."""
    return rows.with_advantage(2 * torch.cat([outcome_R, fresh_F]))


def with_own_old(rows: Rows, recomputed: Rows, recorded: int) -> Rows:
    """Return rows in which recorded utterances keep their recorded log-probabilities, and the others the trainer's own.

    Args:
        rows: rows of ``combined``.
        recomputed: the same with the trainer's log-probabilities and entropies.
        recorded: number of recorded utterances, which come first.
    """
    old_T = torch.where(rows.episode < recorded, rows.logp_old, recomputed.logp_old)
    return rows.with_logp_old(old_T, recomputed.entropy)
