"""Agent loops for verl: its ``AgentLoopBase``, which is imported only when a loop is made.

One episode is one sequence. verl builds the tokens of messages and appends them to those that the model sampled.
"""

from __future__ import annotations

import time
import uuid
from asyncio import wrap_future
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..agents.parsers import AUTO
from ..errors import UsageError
from .text_episode import TextEpisode, ThreadedEpisode, checked_env, first_messages, task_of_row

CUT_OFF = ("abort", "aborted", "length")
"""Reasons of verl's servers to stop before the end of a reply."""


def verl_agent_loop(id: str, *, parser: str = AUTO, **kwargs: Any) -> type[Any]:
    """Return an agent loop for verl 0.9, which constructs it for each episode.

    A row of the data set names its task in ``extra_info`` or in the column ``task``. Where the response is full, the
    server cuts a reply off, or a limit of verl's turns is reached, the environment reads empty messages up to its own
    limit and judges the world. An exception of the environment is raised in verl.

    Args:
        id: id of the environment, with or without tools. Tools are described in the system message.
        parser: how a reply becomes an action, as in ``AgentSettings``.
        kwargs: constructor arguments of the environment.

    Raises:
        UsageError: verl is not installed, or the parser does not fit.
        UnknownEnvironmentError: there is no such environment.
    """
    try:
        from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput
    except ModuleNotFoundError as error:
        raise UsageError(f"verl_agent_loop needs verl: pip install verl==0.9.1 ({error.name} is missing)") from None
    with checked_env(id, kwargs, parser):
        pass

    class Loop(AgentLoopBase):  # type: ignore[misc]
        async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
            play = ThreadedEpisode(TextEpisode(id, kwargs, parser))
            try:
                sequence = await _play(self, play, sampling_params, row)
                await wrap_future(play.submit("give_up"))
            finally:
                await wrap_future(play.close())
            return AgentLoopOutput(**sequence.fields(play, self.rollout_config.response_length))

    return Loop


@dataclass
class _Sequence:
    """The sequence of an episode.

    Args:
        ids: all tokens so far.
        first: number of tokens of the first prompt.
    """

    ids: list[int]
    first: int
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    replies: int = 0
    observations: int = 0
    """Number of observations after the first prompt."""
    acted: int = 0
    """Number of replies that acted; one that was cut off does not."""
    seconds: dict[str, float] = field(default_factory=lambda: {"generate_sequences": 0.0, "tool_calls": 0.0})

    def fields(self, play: ThreadedEpisode, most: int) -> dict[str, Any]:
        """Return the fields of verl's ``AgentLoopOutput``, of which the response has at most ``most`` tokens."""
        rewards, last = play.episode.rewards, max(0, self.acted - 1)
        info = {"success": float(play.episode.ended["success"]), "turns": self.acted}
        scores = [*rewards[:last], sum(rewards[last:])]
        return {
            "prompt_ids": self.ids[: self.first],
            "response_ids": self.ids[self.first :][:most],
            "response_mask": self.mask[:most],
            "response_logprobs": self.logprobs[:most] or None,
            "reward_score": play.episode.total,
            "num_turns": 1 + self.replies + self.observations,
            "metrics": self.seconds,
            "extra_fields": {**self.extra, "turn_scores": scores, "tool_rewards": [], "reward_extra_info": info},
        }


async def _play(loop: Any, play: ThreadedEpisode, sampling: dict[str, Any], row: Mapping[str, Any]) -> _Sequence:
    """Play an episode until it ends, or its response is full, or a limit of verl's turns is reached."""
    system, said = await wrap_future(play.submit("start", task_of_row(row)))
    messages = first_messages(list(row.get("raw_prompt", ())), system, said)
    ids = await loop.ct_build_initial_tokens(messages)
    sequence, request = _Sequence(ids, len(ids)), uuid.uuid4().hex
    most, limits = loop.rollout_config.response_length, loop.rollout_config.multi_turn
    replies, observations = limits.get("max_assistant_turns"), limits.get("max_user_turns")
    while True:
        reply = await _generate(loop, sequence, request, sampling)
        if reply is None or len(sequence.mask) > most:
            return sequence  # what was cut off is not an action
        began = time.monotonic()
        said = await wrap_future(play.submit("answer", reply))
        sequence.acted += 1
        sequence.seconds["tool_calls"] += time.monotonic() - began
        full = (replies and sequence.replies >= replies) or (observations and sequence.observations >= observations)
        if play.episode.over or full:
            return sequence
        answered = [*messages, {"role": "assistant", "content": reply}]
        messages = [*answered, {"role": "user", "content": said}]
        merged, mask, logprobs = await loop.ct_merge_context_msg(
            answered, messages, sequence.ids, sequence.mask, sequence.logprobs or None
        )
        if len(mask) >= most:
            return sequence
        sequence.ids, sequence.mask, sequence.logprobs = merged.token_ids, mask, logprobs or []
        sequence.observations += 1


async def _generate(loop: Any, sequence: _Sequence, request: str, sampling: dict[str, Any]) -> str | None:
    """Append what the model samples, and return its text; ``None`` if the server cut it off."""
    began = time.monotonic()
    output = await loop.server_manager.generate(request_id=request, prompt_ids=sequence.ids, sampling_params=sampling)
    sequence.seconds["generate_sequences"] += time.monotonic() - began
    known = sequence.logprobs if sequence.logprobs or output.log_probs else None
    merged, sequence.mask, logprobs = await loop.ct_merge_assistant_token(
        sequence.ids, output.token_ids, sequence.mask, known, assistant_logprobs=output.log_probs or None
    )
    sequence.ids, sequence.logprobs, sequence.replies = merged.token_ids, logprobs or [], sequence.replies + 1
    steps = "max_global_steps"  # the newest weights that sampled; other fields are those of the first answer
    newest = {steps: output.extra_fields[steps]} if output.extra_fields.get(steps) else {}
    sequence.extra = {**output.extra_fields, **sequence.extra, **newest}
    if not _complete(loop.tokenizer, output):
        return None
    return str(loop.tokenizer.decode(output.token_ids, skip_special_tokens=True))


def _complete(tokenizer: Any, output: Any) -> bool:
    """Return whether a reply ended by itself. vLLM's server says "completed" also at a limit of tokens."""
    if output.stop_reason in CUT_OFF or not output.token_ids:
        return False
    if output.stop_reason == "stop":
        return True
    # A model may have several tokens that end a reply; all of them are special, and no other is the last one.
    last = output.token_ids[-1:]
    return bool(tokenizer.decode(last) != tokenizer.decode(last, skip_special_tokens=True))
