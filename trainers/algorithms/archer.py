"""ArCHer's formulas: the losses of its critic over utterances, and the advantages of its actor over tokens.

Zhou et al., "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" (arXiv 2402.19446), with the
implicit Q-learning of Kostrikov et al. (arXiv 2110.06169) for its offline form. A turn is one step; γ is per turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from ...errors import UsageError
from ..critics.critic_rule import Known
from ..critics.multi_step import lambda_values, n_step_values
from ..critics.transitions import Transition
from ..critics.utterance import UtteranceCritic
from ..critics.values import Values
from ..learning.advantages import leave_one_out
from ..learning.rows import Rows
from ..learning.utterances import Utterance

CriticKind = Literal["td", "mc", "iql"]
ActorKind = Literal["reinforce", "ppo", "awr", "doubly_robust"]
Centering = Literal["none", "batch", "state"]


@dataclass(frozen=True, slots=True)
class ArcherRule:
    """The losses of the critic; Q̄ and V̄ are the slow copies, i = 1, 2 the heads.

    - ``td`` (2402.19446, eqs. 2 and 3): ``Q_i(s,a) → r + γ(1−d)·V̄_i(s′)`` and ``V_i(s) → Q̄_i(s,ã)`` with a fresh
      ``ã ~ π(·|s)``, each head by its own, squared errors.
    - ``mc``: both are regressed on the discounted return that followed, ``Σ_k γ^k r_{t+k}``.
    - ``iql`` (2110.06169, eqs. 5 and 6): Q as in ``td``; V by expectile regression on ``min_i Q̄_i(s,a)`` of the
      utterance in the data, so that no utterance outside it is ever judged.

    Args:
        kind: which of these losses.
        gamma: discount per turn; a transition over n turns discounts by γⁿ.
        min_target: in ``td``, both heads learn from the smaller slow one (clipped double Q-learning, 1802.09477).
        expectile: τ of ``iql``; 0.5 is the mean, and towards 1 it becomes the best utterance in the data.
        lam: λ per turn of the targets of Q in ``td`` and ``iql``; 0 looks one turn ahead.
        steps: number of turns that these targets look ahead instead.
    """

    kind: CriticKind = "td"
    gamma: float = 0.95
    min_target: bool = False
    expectile: float = 0.8
    lam: float = 0.0
    steps: int = 1

    @property
    def needs_fresh(self) -> bool:
        """Whether this loss needs newly sampled utterances."""
        return self.kind == "td"

    @property
    def looks_ahead(self) -> bool:
        """Whether targets need the turns that follow, so that a sample must hold them in order."""
        return self.kind != "mc" and (self.lam > 0 or self.steps > 1)

    def ahead(self, batch: Sequence[Transition], known: Known) -> Known:
        """Return the same with λ-returns or n-step returns from the next states on, as far as the batch holds them."""
        if not self.looks_ahead:
            return known
        value_2B = self._smaller(known.next_v_2B)
        if self.lam > 0:
            further_2B = lambda_values(batch, value_2B.cpu(), gamma=self.gamma, lam=self.lam)
        else:
            further_2B = n_step_values(batch, value_2B.cpu(), gamma=self.gamma, steps=self.steps)
        return replace(known, next_v_2B=further_2B.to(value_2B.device))

    def losses(self, q_2B: Tensor, v_2B: Tensor, known: Known) -> tuple[Tensor, Tensor]:
        """The loss of Q and of V for each transition, summed over heads, ``[B]`` each."""
        if self.kind == "iql":
            lowest_B = known.taken_q_2B.amin(0)
            return squared(q_2B, self._followed(known)), expectile_loss(lowest_B - v_2B, self.expectile).sum(0)
        q_target, v_target = self.targets(known)
        return squared(q_2B, q_target), squared(v_2B, v_target)

    def targets(self, known: Known) -> tuple[Tensor, Tensor]:
        """Return the targets of Q and of V, ``[2, B]`` each.

        Raises:
            UsageError: the rule is ``iql``, whose V has no target, or fresh utterances are missing.
        """
        if self.kind == "mc":
            return_2B = known.return_B.expand_as(known.next_v_2B)
            return return_2B, return_2B
        if self.kind == "iql":
            raise UsageError("the critic 'iql' learns V by expectiles and has no targets for it")
        if known.fresh_q_2B is None:
            raise UsageError("the critic 'td' learns V from fresh utterances, and none were sampled")
        return self._followed(known), self._smaller(known.fresh_q_2B)

    def _followed(self, known: Known) -> Tensor:
        """Return ``r + γ(1−d)·V̄(s′)``, ``[2, B]``."""
        next_v_2B = self._smaller(known.next_v_2B)
        return known.reward_B + self.gamma**known.span_B * torch.where(known.done_B, 0.0, next_v_2B)

    def _smaller(self, heads_2B: Tensor) -> Tensor:
        return heads_2B.amin(0, keepdim=True).expand_as(heads_2B) if self.min_target else heads_2B


def squared(heads_2B: Tensor, target: Tensor) -> Tensor:
    """``Σ_i (x_i − y_i)²``, ``[B]``."""
    return (heads_2B - target).square().sum(0)


def expectile_loss(difference: Tensor, expectile: float) -> Tensor:
    """``|τ − 1(u < 0)|·u²`` with ``u = target − value`` (arXiv 2110.06169, eq. 3)."""
    return torch.where(difference < 0, 1 - expectile, expectile) * difference.square()


def awr_weight(advantage_B: Tensor, *, beta: float, cap: float) -> Tensor:
    """``min(exp(A/β), cap)``: advantage-weighted regression (arXiv 1910.00177, eq. 5; 2110.06169, eq. 7)."""
    return (advantage_B / beta).clamp(max=torch.tensor(cap).log().item()).exp()


def centered(advantage_B: Tensor, states: Sequence[tuple[int, ...]], among: Centering) -> Tensor:
    """``A_b`` less the mean of the batch, or of the *others* in the same state; unchanged if there are none.

    A term that depends on the state alone may be subtracted without changing any expectation, and other utterances in
    the state are drawn independently of this one.
    """
    if among == "none":
        return advantage_B
    if among == "batch":
        return advantage_B - advantage_B.mean()
    number = {state: index for index, state in enumerate(dict.fromkeys(states))}
    state_B = torch.tensor([number[state] for state in states], device=advantage_B.device)
    alone_B = torch.bincount(state_B)[state_B] == 1
    return torch.where(alone_B, advantage_B, leave_one_out(advantage_B, state_B, rounding=0.0))


def token_credit(rows: Rows, advantage_B: Tensor, baseline: Values | None = None) -> Rows:
    """Give every token of utterance b the advantage ``A_b``, less the baseline ``b_t`` of its prefix if there is one.

    See section 3.4 of the paper. The baseline depends on state and prefix alone, so no expectation changes. It is
    fitted to the same quantity that it is subtracted from (``Values.fit``), and helps where utterances are long.

    Args:
        rows: one episode per utterance, as ``learning.utterances`` packs them.
        advantage_B: advantage of each utterance, ``[B]``.
        baseline: a critic over tokens, if any.
    """
    paid = rows.with_advantage(advantage_B)
    return paid if baseline is None else rows.with_token_advantage(paid.advantage - baseline.values(rows))


def judged(critic: UtteranceCritic, utterances: Sequence[Utterance]) -> Tensor:
    """Return the advantage of each utterance, ``[B]``."""
    return critic.advantage([said.prompt_ids for said in utterances], [said.action_ids for said in utterances])


def described(advantage_B: Tensor) -> dict[str, float]:
    """Summarize the advantages as metrics."""
    return {"advantage": float(advantage_B.mean()), "advantage_std": float(advantage_B.std(correction=0))}
