"""``turnwise.evaluate``: what ``turnwise eval`` does, for Python programs and notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ..agents.agent import Agent
from ..agents.chat_apis.settings import ApiSettings
from ..agents.named import agent_from
from ..agents.settings import AgentSettings
from ..config import load_config
from ..envs.named import environment
from ..errors import UsageError
from ..rollouts.branching_search import RolloutSearch
from ..rollouts.options import Isolation, RolloutsConfig
from ..rollouts.pool import EnvSource
from ..rollouts.store import EPISODES
from ..service.process import ProgramConfig
from ..tasks.spec import Split
from .evaluation import OnEpisode, run_evaluation, run_evaluation_async
from .settings import EvalConfig
from .summary import SUMMARY, Summary

Table = Mapping[str, Any]
"""Settings of a table by name."""


class EvalSettings(TypedDict, total=False):
    """The optional arguments of ``evaluate``. ``EvalConfig`` explains each of them, and has the defaults."""

    n: int
    splits: Split | str | Sequence[Split | str]
    levels: int | Sequence[int]
    group_size: int
    seed: int
    temperature: float | None
    max_tokens: int | None
    concurrency: int
    turn_timeout: float | None
    env_timeout: float | None
    episode_timeout: float | None
    retries: int
    backoff: float
    hedge_resets: bool
    isolation: Isolation
    env_kwargs: Table
    tokenizer: str | None
    program: ProgramConfig | Table | str | None
    agent: AgentSettings | Table
    device: str
    api: ApiSettings | Table
    confidence: float
    search: RolloutSearch | Table | None
    failure_rate: float
    rollouts: RolloutsConfig | Table


def evaluate(
    env: EnvSource,
    policy: Agent | str,
    *,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    on_episode: OnEpisode | None = None,
    progress: bool = False,
    **settings: Unpack[EvalSettings],
) -> Summary:
    """Play tasks of an environment with a policy, and return success and return with their intervals.

    ::

        summary = turnwise.evaluate("turnwise/MazeFO-v0", "oracle", n=20, out="runs/oracle")

    Args:
        env: An id, a Python file that registers one, a class, or a function that creates an environment.
        policy: An agent, or any value of ``turnwise eval --policy``: ``"oracle"``, ``"random"``, the folder of a
            model, ``"http://host:port"`` of a vLLM server, ``"openai:MODEL"``.
        out: The folder of the evaluation; ``episodes/`` in it becomes the store, ``summary.json`` the summary.
            ``turnwise report``, ``compare`` and ``replay`` read it.
        resume: Continue an evaluation in ``out``.
        overwrite: Replace an evaluation in ``out``.
        on_episode: Called with each new episode after it is stored.
        progress: Show a progress bar on standard error.
        **settings: Fields of ``EvalConfig``, e.g. ``n=20``, ``splits="test_iid"``, ``group_size=4``.

    Returns:
        The summary of all episodes in ``out``. ``Summary.complete`` is false after Ctrl-C or at a spending cap.

    Raises:
        UsageError: As ``run_evaluation``; or a setting is wrong, or there is no such policy.
        StoreError: As ``run_evaluation``.
        SpendingCapError: As ``run_evaluation``.
        KeyboardInterrupt: As ``run_evaluation``.
    """
    folder = _folder(out)
    config, agent, make = _resolve(env, policy, folder, settings)
    summary = run_evaluation(
        config,
        agent,
        store=folder / EPISODES,
        env=make,
        resume=resume,
        overwrite=overwrite,
        on_episode=on_episode,
        progress=progress,
    )
    summary.save(folder / SUMMARY)
    return summary


async def evaluate_async(
    env: EnvSource,
    policy: Agent | str,
    *,
    out: Path | str,
    resume: bool = False,
    overwrite: bool = False,
    on_episode: OnEpisode | None = None,
    progress: bool = False,
    **settings: Unpack[EvalSettings],
) -> Summary:
    """Do the same as ``evaluate`` inside an event loop, such as a notebook's; if cancelled, the store is complete."""
    folder = _folder(out)
    config, agent, make = _resolve(env, policy, folder, settings)
    summary = await run_evaluation_async(
        config,
        agent,
        store=folder / EPISODES,
        env=make,
        resume=resume,
        overwrite=overwrite,
        on_episode=on_episode,
        progress=progress,
    )
    summary.save(folder / SUMMARY)
    return summary


def _folder(out: Path | str) -> Path:
    if not isinstance(out, str | Path):
        raise UsageError(f"out must be a folder to write to, a str or a Path; got {out!r}")
    return Path(out)


def agent_of(config: EvalConfig, folder: Path) -> Agent:
    """Return the agent that the settings of an evaluation name.

    Args:
        config: The settings; ``policy`` must be set.
        folder: The folder of the evaluation, where a chat API's answers and costs are kept.

    Raises:
        UsageError: As ``agent_from``; or a program cannot call this policy.
        ModelError: As ``agent_from``.
    """
    agent = agent_from(
        config.policy,
        agent=config.agent,
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        device=config.device,
        tokenizer=config.tokenizer,
        api=config.api,
        folder=folder,
        turn_timeout=config.turn_timeout,
    )
    return _with_program(agent, config)


def _with_program(agent: Agent, config: EvalConfig) -> Agent:
    if config.program is None:
        return agent
    from ..service.program import program_agent  # FastAPI, which nothing else here needs

    return program_agent(agent, config.program, config.policy)


def _resolve(
    env: EnvSource, policy: Agent | str, out: Path, settings: EvalSettings
) -> tuple[EvalConfig, Agent, EnvSource | None]:
    """Return the settings, the agent, and what creates the environment unless it is registered."""
    if not (isinstance(env, str) or callable(env)):
        raise UsageError(f"env must be an id, a file's name, a class or a function that creates one; got {env!r:.80}")
    if not isinstance(policy, str) and (isinstance(policy, type) or not hasattr(policy, "start")):
        raise UsageError(
            f"policy must be a policy's name or an agent, an object with start(context); got {policy!r:.80}. For a "
            "function of an observation, write turnwise.agents.FunctionAgent(function)"
        )
    registered = isinstance(env, str)
    name = environment(env) if isinstance(env, str) else getattr(env, "__name__", type(env).__name__)
    given: dict[str, Any] = {**settings, "env": name} | ({"policy": policy} if isinstance(policy, str) else {})
    config = load_config(EvalConfig, settings=given)
    if isinstance(policy, str):
        return config, agent_of(config, out), None if registered else env
    for setting in sorted({"agent", "temperature", "max_tokens", "device", "tokenizer", "api"} & set(settings)):
        if getattr(config, setting) != EvalConfig.model_fields[setting].default:
            raise UsageError(f"{setting} has no effect on an agent object: set it where you make the agent")
    return config, _with_program(policy, config), None if registered else env
