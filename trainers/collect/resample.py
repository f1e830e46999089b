"""Fresh utterances: samples of the present policy in given states, without an environment ("in silico")."""

from __future__ import annotations

import asyncio
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...agents.chat import ChatAgent
from ...errors import InfrastructureError
from ...inference.policy import Finish
from ...tasks.rng import Rng
from ..learning.utterances import Utterance


@dataclass(frozen=True, slots=True)
class Fresh:
    """Sampled utterances.

    Args:
        utterances: one per state, in order.
        cut: number of them that reached ``max_tokens`` or the end of the context, and so lack a stop token.
    """

    utterances: tuple[Utterance, ...]
    cut: int

    @property
    def actions(self) -> list[tuple[int, ...]]:
        """Token ids of the utterances."""
        return [said.action_ids for said in self.utterances]

    def metrics(self) -> dict[str, float]:
        """The share of utterances that were cut."""
        return {"fresh/cut": self.cut / max(len(self.utterances), 1)}


async def fresh_utterances(agent: ChatAgent, states: Sequence[tuple[int, ...]], rng: Rng) -> Fresh:
    """Sample one utterance per state, all at once, by the agent's policy as it would act there.

    Every request has a seed of its own, which follows from ``rng``'s key and the index of the state. Requests in the
    same state are one session, so the server that has read it for one of them has its prefix cached for the others.

    Raises:
        PromptTooLongError: a state leaves no room for an action.
        InfrastructureError: the policy failed, or was stopped.
    """
    seeds = [rng.getrandbits(53) for _ in states]
    said = await asyncio.gather(
        *(
            agent.policy.generate(state, replace(agent.sampling, seed=seed), session=f"fresh-{_number(state)}")
            for state, seed in zip(states, seeds, strict=True)
        )
    )
    aborted = sum(completion.finish is Finish.ABORT for completion in said)
    if aborted:
        raise InfrastructureError(f"{aborted} of {len(said)} fresh utterances were aborted; resume the run")
    return Fresh(
        tuple(
            Utterance(tuple(state), completion.token_ids, completion.logprobs, completion.versions[0])
            for state, completion in zip(states, said, strict=True)
        ),
        sum(completion.finish is Finish.LENGTH for completion in said),
    )


def _number(state: Sequence[int]) -> int:
    """Return a number that is equal for equal states, in every process."""
    return zlib.crc32(array("q", state).tobytes())
