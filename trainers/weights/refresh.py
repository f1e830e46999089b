"""``Refresh``: gives a server that restarted between two syncs the weights of the last one, and has it prove them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ...errors import ContractError, InfrastructureError
from ...inference.serving.retrying import generate_with_retries
from ...inference.serving.server import Sampler, ServerResponse
from .canary_prompts import Answer, Kind, Question
from .diagnosis import Answers
from .noise import Gap
from .transfer import Transport


class Refresh:
    """Brings one server at a time to the weights of the last sync, from what the transport keeps of it.

    The learner may have learned since, so its model cannot judge the server. The answers that proved the last sync do:
    the server must give those of another replica.

    Args:
        transport: transport that keeps the weights.
        version: version of the last sync.
        answers: answers of each replica after that sync.
        limit: largest gap between the log-probabilities of two servers that counts as noise.
    """

    def __init__(self, transport: Transport, version: int, answers: Sequence[Answers], limit: Gap) -> None:
        self._transport, self._version, self._limit = transport, version, limit
        self._known: dict[Kind, list[Answer]] = {}
        for each in answers:
            for kind, answer in each.items():
                self._known.setdefault(kind, []).append(answer)

    async def __call__(self, server: Sampler) -> None:
        """Give a server the weights.

        Raises:
            InfrastructureError: it did not receive them.
            UsageError: it cannot take them.
            ContractError: it received them and answers differently from the other replicas.
        """
        try:
            await self._transport.refresh(server, self._version)
        except OSError as error:
            raise InfrastructureError(f"the weights kept for {server.address} cannot be read: {error}") from None
        kinds = list(self._known)
        said = await asyncio.gather(*(self._ask(server, self._known[kind][0].question) for kind in kinds))
        if wrong := self._differ(dict(zip(kinds, said, strict=True))):
            raise ContractError(f"{server.address} does not serve the weights of version {self._version}: {wrong}")

    async def _ask(self, server: Sampler, question: Question) -> ServerResponse:
        adapter = None if question.kind is Kind.BARE else self._transport.adapter
        ids = question.prompt_ids
        return await generate_with_retries(server, ids, question.sampling, session="canary", adapter=adapter)

    def _differ(self, said: Mapping[Kind, ServerResponse]) -> str:
        """Describe how the answers differ from those of the other replicas; empty if they agree but for noise."""
        versions = {version for each in said.values() for version, _, _ in each.spans}
        if self._transport.adapter is None and versions - {self._version}:
            return f"it reports version {min(versions)}"
        differences: list[float] = []
        unlike = 0
        for kind, each in said.items():
            found = each.completion
            same = next((answer for answer in self._known[kind] if answer.ids == found.token_ids), None)
            unlike += same is None
            if same is not None:
                differences += (a - b for a, b in zip(found.logprobs, same.theirs, strict=True))
        if 2 * unlike > len(said):  # noise may decide between two tokens that are equally likely, but not often
            return f"{unlike} of {len(said)} answers to the canary have other tokens than those of the other servers"
        gap = Gap.of(differences)
        if gap.exceeds(self._limit):
            return (
                f"log-probabilities differ from those of the other servers by {gap.mean:.2g} in the mean (limit "
                f"{self._limit.mean:.2g})"
            )
        return ""
