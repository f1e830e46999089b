"""Whole episodes for TRL: a ``rollout_func`` of its ``GRPOTrainer``, without importing TRL.

TRL passes a prompt and nothing else of a row, so the prompt is the task. Each episode is one sequence: a first prompt,
and a completion in which ``env_mask`` marks what the model sampled. The tokens are those that were sampled.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from ..agents.chat import ChatAgent
from ..agents.settings import AgentSettings
from ..errors import InfrastructureError, UsageError
from ..inference.policy import Sampling
from ..logs import event
from ..loop_thread import LoopThread
from ..tasks.spec import TaskSpec
from .episode import Episode
from .lockstep import Generated, LockstepPolicy
from .options import RunOptions
from .pool import EnvPool, width
from .runner import group_id, run_episodes
from .trl_columns import columns

LOG = logging.getLogger(__name__)
LOOP = LoopThread("turnwise-trl", "episodes for TRL")
CLOSING = 30.0
"""Seconds that environments have to close when the program ends."""
LOOK = 1.0
"""Seconds between two looks for episodes that wait for a place on an environment server."""
TRAINERS = ("temperature", "top_p", "max_tokens")
"""Settings of an agent that are TRL's."""


class TrlRollout:
    """A ``rollout_func`` that plays episodes of one environment; made by ``trl_rollout``.

    Its environments stay open between steps of training.
    """

    def __init__(self, pool: EnvPool, agent: AgentSettings, options: RunOptions, context_length: int | None) -> None:
        self._pool, self._settings, self._options, self._context_length = pool, agent, options, context_length
        self._finalizer = weakref.finalize(self, _close, pool)

    def __call__(self, prompts: Sequence[Any], trainer: Any) -> dict[str, Any]:
        """Play one episode for each prompt, in lock-step, and return them as TRL's trainer reads them.

        Args:
            prompts: prompts of this process, one for each episode; each is a task.
            trainer: trainer that generates.

        Returns:
            ``prompt_ids``, ``completion_ids``, ``logprobs`` (``None`` unless vLLM samples) and ``env_mask`` (1 for
            sampled tokens), and for reward functions ``reward``, ``success``, ``outcome`` and ``turns``. An episode
            that failed has the reward ``None`` and no tokens to train on.

        Raises:
            UsageError: a prompt is not a task, no task fits into the context, or the trainer is of a version without
                the method that generates.
            InfrastructureError: no episode could be played.
        """
        tasks = [_task(prompt) for prompt in prompts]
        generate = getattr(trainer, "_generate_single_turn", None)
        if generate is None:
            raise UsageError("this version of TRL has no GRPOTrainer._generate_single_turn; use trl 1.16")
        policy = LockstepPolicy(
            self._context_length or _context_length(trainer),
            tuple(getattr(trainer, "eos_token_ids", ())),
            int(trainer.state.global_step),
        )
        tokenizer = getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
        playing = LOOP.start(self._play(tasks, policy, self._agent(policy, tokenizer, trainer)))
        playing.add_done_callback(lambda _: policy.end())
        with_logprobs = True

        def sample(batch: list[tuple[int, ...]]) -> Generated:
            nonlocal with_logprobs
            ids, logprobs = generate([list(prompt) for prompt in batch], None, {}, 1)
            with_logprobs = with_logprobs and logprobs is not None
            return ids, logprobs

        try:
            policy.serve(sample, _widest(trainer))
        except BaseException:
            playing.cancel()
            raise
        episodes = playing.result()
        found = columns(episodes, tokenizer.eos_token_id, with_logprobs=with_logprobs)
        _report(episodes, found, _widest(trainer))
        return found

    def close(self) -> None:
        """Close the environments. The program's end does this, too."""
        self._finalizer()

    def _agent(self, policy: LockstepPolicy, tokenizer: Any, trainer: Any) -> ChatAgent:
        settings = self._settings
        return ChatAgent(
            policy,
            tokenizer,
            sampling=Sampling(),
            parser=settings.parser,
            system=settings.system,
            show_tools=settings.show_tools,
            follow_template=False,  # a template that drops thoughts would start another sequence
            template_kwargs={**(getattr(trainer, "chat_template_kwargs", None) or {}), **settings.template_kwargs},
        )

    async def _play(self, tasks: Sequence[TaskSpec], policy: LockstepPolicy, agent: ChatAgent) -> list[Episode]:
        """Return the episodes in the order of their tasks."""
        # A turn takes as long as the slowest episode's, which says nothing about the policy.
        fields: dict[str, Any] = {"turn_timeout": None}
        if "concurrency" not in self._options.model_fields_set:
            fields["concurrency"] = max(1, len(tasks))
        options = self._options.model_copy(update=fields)
        places, seed = width(self._pool, options), options.seed
        order = {group_id(self._pool.env_id, task, index, seed): index for index, task in enumerate(tasks)}
        found: dict[int, Episode] = {}

        def expect() -> None:
            # Who waits for a place, as after the loss of a server, may wait for those that wait for the batch.
            policy.expect(min(places, len(tasks) - len(found)) - self._pool.waiting)

        async def look() -> None:
            while self._pool.queues:
                await asyncio.sleep(LOOK)
                expect()

        expect()
        looking = asyncio.create_task(look())
        try:
            async with contextlib.aclosing(run_episodes(self._pool, agent, tasks, options=options)) as episodes:
                async for episode in episodes:
                    found[order[episode.group_id]] = episode
                    expect()
        finally:
            looking.cancel()
        return [found[index] for index in range(len(tasks))]


def trl_rollout(
    id: str,
    *,
    agent: AgentSettings | None = None,
    options: RunOptions | None = None,
    context_length: int | None = None,
    **kwargs: Any,
) -> TrlRollout:
    """Return a ``rollout_func`` for TRL's ``GRPOTrainer``, which plays whole episodes of an environment.

    The rows of its data set come from ``trl_rows(id, count, in_prompt=True)``, and its reward function is
    ``trl_reward``.

    Args:
        id: id of the environment, with or without tools.
        agent: how the model reads and acts: parser, system message, tools in the prompt. Temperature, ``top_p`` and
            the length of an action are TRL's (``GRPOConfig``).
        options: options of the episodes, such as ``retries``, ``env_timeout`` and ``isolation``. ``turn_timeout`` does
            not apply, and ``concurrency`` is the number of prompts unless you set it.
        context_length: number of tokens of a whole episode (default: ``vllm_max_model_length``, or the model's). An
            episode that grows beyond it has failed.
        kwargs: constructor arguments of the environment, and ``turn_limit``.

    Raises:
        UnknownEnvironmentError: There is no such environment.
        UsageError: A setting belongs to TRL, or rewrites the history of an episode.
    """
    settings, chosen = agent or AgentSettings(), options or RunOptions()
    if settings.context != "full":
        raise UsageError(
            f"agent.context = {settings.context!r} rewrites an episode's history, and TRL trains each episode as one "
            "sequence; use context = 'full'"
        )
    if given := [name for name in TRAINERS if name in settings.model_fields_set]:
        raise UsageError(f"agent.{given[0]} is TRL's here; set temperature, top_p, max_completion_length of GRPOConfig")
    if chosen.group_size != 1:
        raise UsageError("the number of attempts at a task is num_generations of GRPOConfig, not group_size")
    if context_length is not None and context_length < 2:
        raise UsageError(f"context_length must be at least 2; got {context_length}")
    pool = EnvPool.of(id, isolation=chosen.isolation, env_kwargs={**chosen.env_kwargs, **kwargs})
    pool.build().close()  # refuses a wrong argument now, and not once the model is loaded
    return TrlRollout(pool, settings, chosen, context_length)


def trl_reward(
    *, reward: Sequence[float | None], log_metric: Callable[[str, float], None] | None = None, **others: Any
) -> list[float | None]:
    """Return the rewards of the episodes that ``trl_rollout`` played: a reward function for TRL's trainers.

    It also logs the share of successful episodes, their mean number of turns, and the share left out.

    Args:
        reward: return of each episode; ``None`` for one that failed, which TRL leaves out of its group.
        log_metric: function of TRL that logs a number under a name.
        others: other columns, of which ``success`` and ``turns`` are logged.
    """
    if log_metric is not None:
        log_metric("episodes/left_out", sum(each is None for each in reward) / max(1, len(reward)))
        for name in ("success", "turns"):
            played = [float(each) for each in others.get(name, ()) if each is not None]
            if played:
                log_metric(f"episodes/{name}", sum(played) / len(played))
    return list(reward)


def _task(prompt: Any) -> TaskSpec:
    try:
        text = prompt[-1]["content"] if isinstance(prompt, list) and prompt else prompt
        return TaskSpec.from_json(json.loads(text))
    except (TypeError, ValueError, KeyError) as error:
        raise UsageError(
            "a prompt must be a task, as turnwise.envs.trl_rows(…, in_prompt=True) writes it; got "
            f"{prompt!r:.80} ({error})"
        ) from None


def _context_length(trainer: Any) -> int | None:
    """Return the number of tokens that vLLM or the model can read, if known."""
    served = getattr(trainer.args, "vllm_max_model_length", None) if getattr(trainer, "use_vllm", False) else None
    length = served or getattr(getattr(trainer.model, "config", None), "max_position_embeddings", None)
    return None if length is None else int(length)


def _widest(trainer: Any) -> Callable[[int], int]:
    """Return a function that compares the sizes of all processes' batches, in every round."""
    if trainer.accelerator.num_processes == 1:
        return lambda count: count
    from accelerate.utils import gather_object

    return lambda count: int(max(gather_object([count])))


def _report(episodes: Sequence[Episode], found: dict[str, Any], widest: Callable[[int], int]) -> None:
    """Warn about episodes that are left out; raise if no process has another one, so that all of them stop."""
    kept = widest(sum(reward is not None for reward in found["reward"]))
    left = [episode for episode, reward in zip(episodes, found["reward"], strict=True) if reward is None]
    if not left:
        return
    if not kept:
        text = f"none of {len(left)} episodes of {left[0].env_id} can be trained on: {left[0].error}"
        raise UsageError(text) if all(episode.scored for episode in left) else InfrastructureError(text)
    text = f"{len(left)} of {len(episodes)} episodes failed and are left out: {left[0].error}"
    event(LOG, "remark", text, level=logging.WARNING)


def _close(pool: EnvPool) -> None:
    if LOOP.is_current:  # a finalizer may run anywhere
        LOOP.submit(pool.close())
    else:
        with contextlib.suppress(TimeoutError, asyncio.CancelledError):
            LOOP.wait(pool.close(), CLOSING)
