"""``Refresh``: gives a server that restarted between two syncs the weights of the last one, and has it prove them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from ...errors import ContractError, InfrastructureError
from ...inference.serving.retrying import generate_with_retries
from ...inference.serving.server import Sampler, ServerResponse
from .canary_prompts import Answer, Kind, Question
from .diagnosis import Answers, altered
from .noise import Gap, Noise, share
from .transfer import Transport


class Refresh:
    """Brings one server at a time to the weights of the last sync, from what the transport keeps of it.

    The learner may have learned since, so its model cannot judge the server. The answers that proved the last sync do:
    the server must give those of another replica, to every single question. If it has earlier weights instead, these
    may differ from the present ones by less than the noise between a server and the learner. So its answers are
    compared with those of earlier versions, too, as after a transfer.

    Args:
        transport: transport that keeps the weights.
        version: version of the last sync.
        answers: answers of each replica after that sync.
        noise: noise of the run.
        former: answers of servers before their weights were replaced, by the first sync and by the last.
    """

    def __init__(
        self,
        transport: Transport,
        version: int,
        answers: Sequence[Answers],
        noise: Noise,
        former: Sequence[Answers] = (),
    ) -> None:
        self._transport, self._version, self._noise, self._former = transport, version, noise, former
        self._known: dict[Kind, list[Answer]] = {}
        for each in answers:
            for kind, answer in each.items():
                # Without its adapter, vLLM on a CPU answers by whatever adapters are loaded (``diagnosis._measured``).
                if kind is not Kind.BARE:
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
        # As after a transfer, a difference counts only if two rounds of questions have it.
        if await self._differs(server) and (wrong := await self._differs(server)):
            raise ContractError(f"{server.address} does not serve the weights of version {self._version}: {wrong}")

    async def _differs(self, server: Sampler) -> str:
        """Describe how a server's answers differ from those of the other replicas; empty if they do not."""
        said = await asyncio.gather(*(self._ask(server, known[0].question) for known in self._known.values()))
        return self._compare(dict(zip(self._known, said, strict=True)))

    async def _ask(self, server: Sampler, question: Question) -> ServerResponse:
        ids, adapter = question.prompt_ids, self._transport.adapter
        return await generate_with_retries(server, ids, question.sampling, session="canary", adapter=adapter)

    def _compare(self, said: Mapping[Kind, ServerResponse]) -> str:
        versions = {version for each in said.values() for version, _, _ in each.spans}
        if self._transport.adapter is None and versions - {self._version}:
            return f"it reports version {min(versions)}"
        found = {kind: Answer(self._known[kind][0].question, each, (), ()) for kind, each in said.items()}
        for kind, answer in found.items():
            if (changed := altered(answer)) is not None:
                return str(changed)
            gap = Gap.of(self._differences(kind, answer))
            if gap.exceeds(self._noise.limit):
                return (
                    f"log-probabilities of the {kind} question differ from those of the other servers by "
                    f"{gap.mean:.2g} in the mean (limit {self._noise.limit.mean:.2g})"
                )
        if any(self._kept(found, before) for before in self._former):
            return "its answers are nearer to those of an earlier version than to those of the other servers"
        return ""

    def _differences(self, kind: Kind, found: Answer) -> list[float]:
        """Return the differences to the nearest answer of another replica, up to the first id that differs.

        A greedy server takes the likeliest id. Of the same weights, two take different ids only if both are equally
        likely but for noise, so that place counts. A sampled id says nothing about its neighbor.
        """
        known = max(self._known[kind], key=lambda answer: _shared(answer, found))
        count = _shared(known, found) + (found.question.sampling.temperature == 0)
        return [a - b for a, b in zip(found.theirs[:count], known.theirs[:count], strict=False)]

    def _kept(self, found: Answers, before: Answers) -> bool:
        """Whether the server has not followed a step that the other replicas took: see ``diagnosis.still``."""
        step: list[float] = []
        own: list[float] = []
        for kind, answer in found.items():
            old = before.get(kind)
            new = next((known for known in self._known[kind] if known.ids == answer.ids), None)
            if old is None or new is None or old.question != new.question or old.ids != new.ids:
                continue
            step += (a - b for a, b in zip(new.theirs, old.theirs, strict=True))
            own += (a - b for a, b in zip(answer.theirs, old.theirs, strict=True))
        return self._noise.shows(step) and share(own, step) < 0.5


def _shared(one: Answer, other: Answer) -> int:
    """Return the number of ids with which both answers begin."""
    pairs = enumerate(zip(one.ids, other.ids, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one.ids), len(other.ids)))
