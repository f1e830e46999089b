"""Fresh utterances: samples of the present policy in given states, without an environment ("in silico")."""

from __future__ import annotations

import asyncio
import zlib
from array import array
from collections import Counter, deque
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
        ended: whether each has a stop token; the others reached ``max_tokens`` or the end of the context.
    """

    utterances: tuple[Utterance, ...]
    ended: tuple[bool, ...]

    @property
    def cut(self) -> int:
        """Number of utterances without a stop token."""
        return len(self.ended) - sum(self.ended)

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
        tuple(completion.finish is not Finish.LENGTH for completion in said),
    )


async def shared_utterances(
    agent: ChatAgent, batches: Sequence[Sequence[tuple[int, ...]]], rng: Rng, *, most: int
) -> list[Fresh]:
    """Sample utterances for several batches that share those in equal states, at most ``most`` in each state.

    This is for batches that learn from the same policy. A state that occurs n times gets min(n, ``most``) utterances,
    and its occurrences take them in turn: every occurrence has an utterance of the policy, and two may have the same.

    Returns:
        The utterances of each batch, one per state, in order.

    Raises:
        PromptTooLongError: a state leaves no room for an action.
        InfrastructureError: the policy failed, or was stopped.
    """
    counts = Counter(state for batch in batches for state in batch)
    asked = [state for state, count in counts.items() for _ in range(min(count, most))]
    sampled = await fresh_utterances(agent, asked, rng)
    pools: dict[tuple[int, ...], deque[tuple[Utterance, bool]]] = {state: deque() for state in counts}
    for state, said, ended in zip(asked, sampled.utterances, sampled.ended, strict=True):
        pools[state].append((said, ended))
    found = []
    for batch in batches:
        taken = []
        for state in batch:
            taken.append(pools[state][0])
            pools[state].rotate(-1)
        found.append(Fresh(tuple(said for said, _ in taken), tuple(ended for _, ended in taken)))
    return found


def _number(state: Sequence[int]) -> int:
    """Return a number that is equal for equal states, in every process."""
    return zlib.crc32(array("q", state).tobytes())
