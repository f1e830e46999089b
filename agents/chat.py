"""``ChatAgent``: a language model as an agent, and demonstrations written exactly as it would have said them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..envs.messages import Action, Message, Observation, message
from ..envs.tools import Tool
from ..errors import ModelError
from ..tasks.rng import stable_hash
from .agent import Decision, EpisodeContext
from .context import ContextStrategy, Round, context_strategy
from .parsers import ActionParser, action_parser
from .policy import Finish, Policy, Sampling
from .template import ChatTemplate
from .transcript import Transcript, Utterance


class ChatAgent:
    """Reads observations through a chat template, samples from a policy, parses what it said.

    Args:
        policy: what samples.
        tokenizer: the policy's, with a chat template.
        sampling: how; the template's stop ids are added, and each request gets its own seed from the episode's
            generator unless ``sampling.seed`` is set.
        context: a strategy, or its name: "full", "last:K", "short:K:N", "summary", "summary:N".
        parser: an action parser, or its name: "text", "tagged", "tools", "search".
        system: text added to the system message that opens the episode, which is made if there is none.
        show_tools: let the chat template describe the episode's tools.
        follow_template: start a new row where the chat template rewrites history; see ``Transcript``.

    Raises:
        ModelError: the tokenizer has no chat template.
        UsageError: an unknown context strategy or parser.
    """

    def __init__(
        self,
        policy: Policy,
        tokenizer: Any,
        *,
        sampling: Sampling | None = None,
        context: str | ContextStrategy = "full",
        parser: str | ActionParser = "text",
        system: str | None = None,
        show_tools: bool = True,
        follow_template: bool = True,
    ) -> None:
        self.policy = policy
        self.template = tokenizer if isinstance(tokenizer, ChatTemplate) else ChatTemplate(tokenizer)
        self.context = context_strategy(context)
        self.parser = action_parser(parser)
        self.system, self.show_tools, self.follow_template = system, show_tools, follow_template
        chosen = sampling or Sampling()
        self.sampling = replace(chosen, stop_ids=tuple(dict.fromkeys((*chosen.stop_ids, *self.template.stop_ids))))

    def start(self, context: EpisodeContext) -> ChatSession:
        """A session for one episode.

        Raises:
            ModelError: the chat template would not show the episode's tools.
        """
        return ChatSession(self, self._conversation(context.tools), context)

    def encode_demonstration(
        self, turns: Sequence[tuple[Observation, Action]], *, tools: Sequence[Tool] = ()
    ) -> list[Decision]:
        """A scripted episode as if this agent had said it, for behaviour cloning.

        Prompts come from the same template, context strategy and transcript as the agent's own; each action is
        written by the parser, encoded, and ended with the stop id. Log-probabilities are 0 and versions −1: nobody
        sampled these tokens.

        Args:
            turns: observations with the actions taken on them, in order.
            tools: what the environment offers.

        Raises:
            ModelError: the parser or the tokenizer cannot write an action.
        """
        conversation = self._conversation(tools)
        decisions = []
        for observation, action in turns:
            prompt = conversation.hear(observation)
            ids = self.template.written(self.parser.format(action))
            conversation.say(ids, closed=True)
            decisions.append(Decision(action, prompt, ids, (0.0,) * len(ids), (-1,) * len(ids), Finish.STOP))
        return decisions

    def _conversation(self, tools: Sequence[Tool]) -> Conversation:
        shown: list[Mapping[str, Any]] = [tool.to_json() for tool in tools] if self.show_tools else []
        rendering = self.template.bind(shown)
        if not rendering.shows_tools:
            raise ModelError(
                "the tokenizer's chat template does not show tools, so the agent would not know of them; describe "
                "them in system= and pass show_tools=False, or use a template that has tools"
            )
        transcript = Transcript(rendering, follow_template=self.follow_template)
        return Conversation(self.template, transcript, self.context, self.system)


class Conversation:
    """One episode as an agent hears and says it: rounds, seen through a context strategy, as exact ids."""

    def __init__(
        self, template: ChatTemplate, transcript: Transcript, context: ContextStrategy, system: str | None = None
    ) -> None:
        self._template, self._context, self._system = template, context, system
        self.transcript = transcript
        self._rounds: list[Round] = []

    def copy(self) -> Conversation:
        """An independent conversation in the same state."""
        twin = Conversation(self._template, self.transcript.copy(), self._context, self._system)
        twin._rounds = list(self._rounds)
        return twin

    def hear(self, observation: Observation) -> tuple[int, ...]:
        """Add the new messages; the ids to read before speaking."""
        if not self._rounds and self._system:
            observation = _with_system(observation, self._system)
        self._rounds.append(Round(observation))
        return self.transcript.prompt(self._context.view(self._rounds))

    def say(self, ids: tuple[int, ...], *, closed: bool) -> str:
        """Add what was sampled; the text of it, without the stop token."""
        text = self._template.decode(ids[:-1] if closed else ids)
        self._rounds[-1] = replace(self._rounds[-1], said=Utterance(ids, text, closed))
        return text


class ChatSession:
    """A ``ChatAgent`` in one episode."""

    def __init__(self, agent: ChatAgent, conversation: Conversation, context: EpisodeContext) -> None:
        self._agent, self._conversation, self._context = agent, conversation, context
        self._turn = 0

    def fork(self, context: EpisodeContext) -> ChatSession:
        """An independent session that has heard and said the same, for an episode forked at this turn.

        Args:
            context: the new episode's; its generator seeds the turns from here on.
        """
        forked = ChatSession(self._agent, self._conversation.copy(), context)
        forked._turn = self._turn
        return forked

    @property
    def rows(self) -> int:
        """How many rows of tokens the episode has so far; 1 if every prompt extended the one before."""
        return self._conversation.transcript.rows

    async def act(self, observation: Observation) -> Decision:
        """Read, sample, parse.

        Raises:
            PolicyError: the policy's own errors, e.g. a prompt that is too long.
        """
        agent = self._agent
        prompt = self._conversation.hear(observation)
        sampling = agent.sampling if agent.sampling.seed is not None else replace(agent.sampling, seed=self._seed())
        asked = time.perf_counter()
        completion = await agent.policy.generate(prompt, sampling, session=self._context.policy_session)
        seconds = time.perf_counter() - asked
        text = self._conversation.say(completion.token_ids, closed=completion.finish is Finish.STOP)
        action = agent.parser.parse(agent.context.spoken(text))
        ids, logprobs, versions = completion.token_ids, completion.logprobs, completion.versions
        return Decision(action, prompt, ids, logprobs, versions, completion.finish, seconds)

    def read(self, observation: Observation) -> tuple[int, ...]:
        """The ids that would be read before the next action; see ``Reader``."""
        return self._conversation.hear(observation)

    def _seed(self) -> int:
        """A function of the episode's key and the turn alone, so that a turn can be sampled again by itself."""
        self._turn += 1
        return int.from_bytes(stable_hash(*self._context.rng.key, "sampling", self._turn)[:7], "big")


def _with_system(observation: Observation, system: str) -> Observation:
    messages = observation.messages
    if messages and messages[0].role == "system":
        opening: Message = messages[0].with_text(f"{messages[0].text}\n\n{system}")
        return Observation((opening, *messages[1:]))
    return Observation((message("system", system), *messages))
