"""``ChatAgent``: a language model as an agent, and demonstrations encoded exactly as it would have sampled them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

from ..envs.messages import Action, Observation
from ..envs.tools import Tool
from ..errors import InfrastructureError, ModelError
from ..inference.policy import Finish, Policy, Sampling
from ..tasks.rng import stable_hash
from .agent import Decision, EpisodeContext
from .context import ContextStrategy, Round, context_strategy
from .own_text import with_system
from .parsers import AUTO, ActionParser, action_parser, parser_for, text_of
from .settings import SWITCHES, AgentSettings
from .template import ChatTemplate
from .thoughts import CLOSE, thoughts_in
from .tool_calls import CallParser, described
from .transcript import Transcript, Utterance


class ChatAgent:
    """Reads observations through a chat template, samples from a policy, and parses the completion.

    Args:
        policy: policy to sample from.
        tokenizer: tokenizer of the policy, with a chat template.
        sampling: sampling settings; the template's stop ids are added, and each request gets its own seed from the
            episode's generator unless ``sampling.seed`` is set.
        context: a strategy, or its name: "full", "last:K", "short:K:N", "summary", "summary:N".
        parser: an action parser, or its name in a configuration; see ``AgentSettings.parser``.
        system: text added to the system message at the start of the episode, which is created if necessary.
        show_tools: whether to describe the episode's tools, in the chat template or, if that cannot, in the system
            message.
        follow_template: whether to start a new row where the chat template rewrites history; see ``Transcript``.
        template_kwargs: further variables of the chat template.

    Raises:
        ModelError: the tokenizer has no chat template.
        UsageError: the context strategy or the parser is unknown.
    """

    notes: tuple[str, ...] = ()
    """Remarks on how this agent acts, for the summary of a run."""

    def __init__(
        self,
        policy: Policy,
        tokenizer: Any,
        *,
        sampling: Sampling | None = None,
        context: str | ContextStrategy = "full",
        parser: str | ActionParser = AUTO,
        system: str | None = None,
        show_tools: bool = True,
        follow_template: bool = True,
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self.policy = policy
        self.template = tokenizer if isinstance(tokenizer, ChatTemplate) else ChatTemplate(tokenizer, template_kwargs)
        self.context = context_strategy(context)
        self.context_name = context if isinstance(context, str) else type(context).__name__
        if parser != AUTO:
            action_parser(parser)  # refuse an unknown name here, not in the first episode
        self.parser = parser
        self.system, self.show_tools, self.follow_template = system, show_tools, follow_template
        chosen = sampling or Sampling()
        self.sampling = replace(chosen, stop_ids=tuple(dict.fromkeys((*chosen.stop_ids, *self.template.stop_ids))))

    @classmethod
    def of(cls, settings: AgentSettings, policy: Policy, tokenizer: Any) -> Self:
        """Create the agent that settings describe.

        Raises:
            ModelError: the tokenizer has no chat template, or not the switch for thoughts that the settings need.
        """
        agent = cls(
            policy,
            tokenizer,
            sampling=Sampling(settings.temperature, settings.max_tokens, top_p=settings.top_p),
            context=settings.context,
            parser=settings.parser,
            system=settings.system,
            show_tools=settings.show_tools,
            template_kwargs=settings.template_kwargs,
        )
        if settings.enable_thinking is not None and not any(name in agent.template.source for name in SWITCHES):
            raise ModelError(
                "the model's chat template does not support agent.enable_thinking = "
                f"{str(settings.enable_thinking).lower()} (it has no {' or '.join(SWITCHES)}); remove the setting"
            )
        return agent

    def parser_for(self, tools: Sequence[Tool]) -> ActionParser:
        """Return the parser of actions for these tools."""
        offered = [tool.to_json() for tool in tools]
        return parser_for(self.parser, offered, dialect=self.template.dialect, source=self.template.source)

    def remarks(self, tools: Sequence[Tool]) -> tuple[str, ...]:
        """Report settings that differ from training's, and the parser of actions; see ``Remarking``."""
        parser = self.parser_for(tools)
        if self.parser != AUTO or not isinstance(parser, CallParser):  # without tools there was no choice
            return self.notes
        shown = self.template.bind([tool.to_json() for tool in tools]).shows_tools or not self.show_tools
        where = "the chat template"
        if not shown:
            where = "the system message, since the chat template shows no tools"
        elif not self.template.tells_dialect:
            where = "the system message, since the chat template's own are in a dialect that is not known here"
        return (*self.notes, f"actions are read by parser {parser.NAME!r} (auto: the tool calls of {where})")

    def start(self, context: EpisodeContext) -> ChatSession:
        """Return a session for one episode.

        Raises:
            ModelError: the chat template would not show the episode's tools.
        """
        return ChatSession(self, self._conversation(context.tools), context)

    def encode_demonstration(
        self, turns: Sequence[tuple[Observation, Action]], *, tools: Sequence[Tool] = ()
    ) -> list[Decision]:
        """Encode a scripted episode as if this agent had sampled it, for behavior cloning.

        Prompts come from the same template, context strategy and transcript as the agent's own. The parser writes each
        action, which is then encoded and ended with the stop id. Log-probabilities are 0 and versions −1, since no
        policy sampled these tokens.

        Args:
            turns: observations with the actions taken on them, in order.
            tools: tools of the environment.

        Raises:
            ModelError: the parser or the tokenizer cannot write an action.
        """
        conversation, parser = self._conversation(tools), self.parser_for(tools)
        return [self.written(conversation, parser, observation, action) for observation, action in turns]

    def written(
        self, conversation: Conversation, parser: ActionParser, observation: Observation, action: Action
    ) -> Decision:
        """Add one scripted turn to a conversation, and return it as ``encode_demonstration`` does."""
        prompt = conversation.add_observation(observation)
        opened = self.template.opens_thought(prompt)
        unthinking = f"{CLOSE}\n\n" if opened else ""
        ids = self.template.written(unthinking + text_of(action, parser), calls=bool(action.tool_calls))
        conversation.add_completion(ids, closed=True, opened=opened)
        return Decision(action, prompt, ids, (0.0,) * len(ids), (-1,) * len(ids), Finish.STOP)

    def _conversation(self, tools: Sequence[Tool]) -> Conversation:
        shown: list[Mapping[str, Any]] = [tool.to_json() for tool in tools] if self.show_tools else []
        rendering, system = self.template.bind(shown), [self.system] if self.system else []
        if not rendering.shows_tools:
            parser = self.parser_for(tools)
            if not isinstance(parser, CallParser):
                raise ModelError(
                    "the tokenizer's chat template does not show tools to the model; set parser='auto', which "
                    "describes them in the system message, or show_tools=False"
                )
            rendering = self.template.bind(())
            system.append(described(shown, parser.how))
        elif shown and not self.template.tells_dialect and isinstance(parser := self.parser_for(tools), CallParser):
            system.append(parser.how)
        transcript = Transcript(rendering, follow_template=self.follow_template)
        return Conversation(self.template, transcript, self.context, "\n\n".join(system))


class Conversation:
    """An agent's view of one episode: rounds, seen through a context strategy, as exact ids."""

    def __init__(
        self, template: ChatTemplate, transcript: Transcript, context: ContextStrategy, system: str | None = None
    ) -> None:
        self._template, self._context, self._system = template, context, system
        self.transcript = transcript
        self._rounds: list[Round] = []

    def copy(self) -> Conversation:
        """Return an independent conversation in the same state."""
        twin = Conversation(self._template, self.transcript.copy(), self._context, self._system)
        twin._rounds = list(self._rounds)
        return twin

    def add_observation(self, observation: Observation) -> tuple[int, ...]:
        """Add the new messages, and return the ids to read before the next action."""
        if not self._rounds and self._system:
            observation = with_system(observation, self._system)
        self._rounds.append(Round(observation))
        return self.transcript.prompt(self._context.view(self._rounds))

    def add_completion(self, ids: tuple[int, ...], *, closed: bool, opened: bool) -> str:
        """Add a completion and return its text without the stop token; ``opened``: the prompt opened a thought."""
        text = self._template.decode(ids[:-1] if closed else ids)
        unified = self._template.thoughts.unified(text, opened=opened)
        self._rounds[-1] = replace(self._rounds[-1], said=Utterance(ids, text, closed, unified))
        return text


class ChatSession:
    """A ``ChatAgent`` in one episode."""

    def __init__(self, agent: ChatAgent, conversation: Conversation, context: EpisodeContext) -> None:
        self._agent, self._conversation, self._context = agent, conversation, context
        self._parser = agent.parser_for(context.tools)
        self._turn = 0

    def fork(self, context: EpisodeContext) -> ChatSession:
        """Return an independent session with the same history, for an episode forked at this turn.

        Args:
            context: context of the new episode, whose generator seeds the turns from now on.
        """
        forked = ChatSession(self._agent, self._conversation.copy(), context)
        forked._turn = self._turn
        return forked

    def recall(self, turns: Sequence[tuple[Observation, Decision]]) -> None:
        """Add recorded turns to the history of a new session; see ``Recalling``.

        Where the recorded prompt is the one that this agent would have read, the recorded ids are taken as they are.
        Otherwise (a scripted agent, another tokenizer, another context) the action is written and encoded.

        Raises:
            ModelError: the parser or the tokenizer cannot write an action.
        """
        for observation, decision in turns:
            conversation = self._conversation.copy()
            prompt = conversation.add_observation(observation)
            if decision.action_ids and decision.prompt_ids == prompt:
                opened = self._agent.template.opens_thought(prompt)
                closed = decision.finish is Finish.STOP
                conversation.add_completion(decision.action_ids, closed=closed, opened=opened)
                self._conversation = conversation
            else:
                self._agent.written(self._conversation, self._parser, observation, decision.action)
            self._turn += 1

    @property
    def rows(self) -> int:
        """Number of token rows that the episode has so far; 1 if every prompt extended the one before."""
        return self._conversation.transcript.rows

    @property
    def patience(self) -> float | None:
        """Seconds to which a served policy limits itself; see ``SelfTimed``."""
        return getattr(self._agent.policy, "max_wait", None)

    async def act(self, observation: Observation) -> Decision:
        """Read, sample, parse.

        Raises:
            PolicyError: the policy's own errors, e.g. a prompt that is too long.
        """
        agent = self._agent
        before = self._conversation.copy(), self._turn
        prompt = self._conversation.add_observation(observation)
        sampling = agent.sampling if agent.sampling.seed is not None else replace(agent.sampling, seed=self._seed())
        asked = time.perf_counter()
        try:
            completion = await agent.policy.generate(prompt, sampling, session=self._context.policy_session)
        except InfrastructureError:
            self._conversation, self._turn = before  # as if ``act`` had not been called
            raise
        seconds = time.perf_counter() - asked
        opened = agent.template.opens_thought(prompt)
        text = self._conversation.add_completion(
            completion.token_ids, closed=completion.finish is Finish.STOP, opened=opened
        )
        said = agent.template.thoughts.unified(agent.context.spoken(text), opened=opened)
        action = self._parser.parse(said)
        ids, logprobs, versions = completion.token_ids, completion.logprobs, completion.versions
        return Decision(action, prompt, ids, logprobs, versions, completion.finish, seconds, thoughts_in(said))

    def repeatable(self) -> None:
        """See ``Repeatable``."""

    def read(self, observation: Observation) -> tuple[int, ...]:
        """Return the ids that would be read before the next action; see ``PromptReader``."""
        return self._conversation.add_observation(observation)

    def _seed(self) -> int:
        """Derive a seed from the episode's key and the turn alone, so that a turn can be sampled again by itself."""
        self._turn += 1
        return int.from_bytes(stable_hash(*self._context.rng.key, "sampling", self._turn)[:7], "big")
