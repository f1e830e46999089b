"""Episodes through chat APIs that fail in every way: all end, and none is scored by a server's failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from turnwise.agents.agent import CHAT_API
from turnwise.agents.chat_apis.settings import ApiSettings
from turnwise.errors import InfrastructureError, SpendingCapError, UsageError
from turnwise.evals.evaluation import run_evaluation_async
from turnwise.evals.settings import EvalConfig
from turnwise.evals.summary import Summary
from turnwise.rollouts.episode import Episode
from turnwise.rollouts.replay import replay
from turnwise.rollouts.rows import merge
from turnwise.rollouts.store import load_episodes
from turnwise.trainers.critics.transitions import transitions

from ...logged import events
from . import fake_api
from .fake_api import FAULTS, KEY, FakeApi, guesser, run, shopper
from .schemas import check

ENDPOINTS = {"openai": "chat", "responses": "responses", "anthropic": "auto"}
SPECS = {"openai": "openai:gpt-4o", "responses": "openai:gpt-5.4", "anthropic": "anthropic:claude-sonnet-5-5"}


def strict(path: str, body: dict[str, Any]) -> None:
    """Refuse as a strict server; ``reasoning_content`` is a field of other servers than OpenAI's."""
    check(path, body, beyond=frozenset({"reasoning_content"}))


def play(
    api: FakeApi,
    env: str,
    folder: Path,
    n: int = 10,
    *,
    spec: str = "openai:gpt-4o",
    resume: bool = False,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> Summary:
    """Evaluate on a virtual clock."""
    api_settings = ApiSettings(**({"price": api.price} | (settings or {})))
    config = EvalConfig(env=env, policy=spec, n=n, api=api_settings, isolation="inline", **options)
    agent = api.agent(spec, api_settings, folder=folder, max_tokens=options.get("max_tokens"))
    found: Summary = run(run_evaluation_async(config, agent, store=folder / "episodes", resume=resume))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", SPECS)
def test_every_fault_is_retried_and_none_is_scored(kind: str, shops: str, tmp_path: Path) -> None:
    api = FakeApi(faults=dict.fromkeys(FAULTS, 0.025), validate=strict, per_minute=60)
    summary = play(api, shops, tmp_path, 20, spec=SPECS[kind], settings={"endpoint": ENDPOINTS[kind]})
    assert summary.outcomes == {"completed": 20}, "every episode ends as if nothing had failed"
    assert summary.success.value == 1.0
    assert summary.api is not None
    assert summary.api.answers == 80
    assert not summary.infrastructure
    assert any("were sent again" in note for note in summary.notes), "the failures are told"
    assert set(api.said) >= set(FAULTS) - {"deep"} or sum(api.said.values()) > 90


def test_wrong_arguments_are_the_models_own_fault(shops: str, tmp_path: Path) -> None:
    api = FakeApi(bad_arguments=0.4, validate=strict)
    summary = play(api, shops, tmp_path, 20)
    assert summary.outcomes.keys() <= {"completed", "truncated"}
    assert summary.unparsed_actions > 10, "arguments that are no JSON are an action that cannot be read"
    problem = next(t.action.problem for e in load_episodes(tmp_path / "episodes") for t in e.turns if t.action.problem)
    assert problem.startswith("Tool call 1, of price: its arguments are not JSON that a tool can take")


def test_a_conversation_in_text_is_sent_whole(numbers: str, tmp_path: Path) -> None:
    api = FakeApi(guesser, validate=strict)
    summary = play(api, numbers, tmp_path, 5)
    assert summary.success.value == 1.0, "the guesser can only halve if it reads all that was said"
    for episode in load_episodes(tmp_path / "episodes"):
        assert all(replay(episode, numbers).ok for _ in "x"), "what the API said of itself is not the environment's"
        record = episode.turns[0].info[CHAT_API]
        assert episode.turns[0].thoughts == "Let me think."
        assert "Let me think" not in episode.turns[0].action.text, "reasoning is no part of the action"
        assert record["model"] == "gpt-4o-2024-08-06"
        assert record["cost"] > 0


def test_a_thought_that_was_cut_off_is_not_an_action(numbers: str, tmp_path: Path) -> None:
    play(FakeApi(lambda conversation, tools: ("<think>between 40 and", None), validate=strict), numbers, tmp_path, 1)
    (episode,) = load_episodes(tmp_path / "episodes")
    assert {turn.action.problem for turn in episode.turns} == {
        "Your <think> was never closed. Write </think>, then your answer."
    }


def test_tools_in_text(shops: str, tmp_path: Path) -> None:
    def writes(conversation: list[tuple[str, str]], tools: bool) -> tuple[str, None]:
        assert not tools, "no tools are sent beside the text"
        assert "<tools>" in conversation[0][1]
        said = [("tool", t.partition(": ")[2]) for r, t in conversation if r == "user" and t.startswith("Result of")]
        name, arguments = shopper(said, True)
        return f'<think>hm</think><tool_call>{{"name": "{name}", "arguments": {arguments!s}}}</tool_call>'.replace(
            "'", '"'
        ), None

    summary = play(FakeApi(writes, validate=strict), shops, tmp_path, 5, settings={"tools": "text"})
    assert summary.success.value == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("cap", [0.05, 0.2])
def test_the_cap_holds_and_a_resumed_run_goes_on_from_it(cap: float, shops: str, tmp_path: Path) -> None:
    api = FakeApi(faults={"500": 0.05, "cut JSON": 0.01})
    bound = {"max_cost": cap, "price": api.price}
    first = play(api, shops, tmp_path, 100, settings=bound, max_tokens=500)
    assert not first.complete, "what was played by then is summarized, as evaluate() does it"
    assert any("raise --max-cost and --resume" in note for note in first.notes)
    assert 0 < api.billed <= Decimal(str(cap)), "not a cent more is billed, lost answers included"
    before = api.billed
    assert not play(api, shops, tmp_path, 100, settings=bound, max_tokens=500, resume=True).complete
    assert api.billed <= Decimal(str(cap)), "a resumed run has no new cap"
    assert api.billed - before < before / 2
    summary = play(api, shops, tmp_path, 100, settings=bound | {"max_cost": 50}, max_tokens=500, resume=True)
    assert summary.outcomes == {"completed": 100}


def test_a_cap_below_the_first_episode_leaves_nothing_to_summarize(shops: str, tmp_path: Path) -> None:
    with pytest.raises(SpendingCapError, match="raise --max-cost and --resume"):
        play(FakeApi(), shops, tmp_path, 2, settings={"max_cost": 0.001}, max_tokens=500)


def test_a_resumed_run_asks_nothing_twice(shops: str, tmp_path: Path) -> None:
    api = FakeApi()

    class StopError(Exception):
        pass

    def stops(path: str, body: dict[str, Any]) -> None:
        if len(api.requests) == 30:
            raise StopError

    api.validate = stops
    with pytest.raises(Exception, match="StopError"):
        play(api, shops, tmp_path, 20, concurrency=8)
    api.validate = lambda path, body: None
    summary = play(api, shops, tmp_path, 20, concurrency=8, resume=True)
    assert summary.outcomes == {"completed": 20}
    assert len(api.answered) == 80, "each question is answered once"
    assert summary.api is not None
    assert summary.api.kept > 0, "answers of unfinished episodes are kept"
    other = play(FakeApi(brain=None), shops, tmp_path / "b", 20, settings={"cache": str(tmp_path / "_answers")})  # type: ignore[arg-type]
    assert other.api is not None
    assert other.api.kept == 80, "--cache shares answers between runs"


def test_what_a_server_wants_otherwise_is_learned_once(shops: str, tmp_path: Path) -> None:
    def newer(request: httpx.Request) -> httpx.Response:
        if b'"max_tokens"' in request.content:
            said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return httpx.Response(400, json={"error": {"message": said}})
        return api._answer(request)

    async def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        await asyncio.sleep(1)
        return newer(request)

    asked = list[httpx.Request]()
    api = FakeApi()
    api.handle = handle  # type: ignore[method-assign]
    play(api, shops, tmp_path / "a", 5, concurrency=1)
    assert len(asked) == 21, "one refusal, and the rest as the server wants it"
    asked.clear()
    play(api, shops, tmp_path / "c", 5, concurrency=5)
    assert len(asked) == 25, "those that are refused at the same time learn the same"
    asked.clear()
    play(api, shops, tmp_path / "b", 5, concurrency=1, settings={"cache": str(tmp_path / "a" / "_answers")})
    assert not asked, "kept answers are found although this run has not learned it"


def test_attempts_at_one_task_are_asked_apart(shops: str, tmp_path: Path) -> None:
    api = FakeApi()
    summary = play(api, shops, tmp_path, 3, group_size=4)
    assert len(api.answered) == 48, "four attempts are four samples, not one and its copies"
    assert summary.api is not None
    assert summary.api.kept == 0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (httpx.Response(401, json={"error": {"message": f"bad key {KEY}"}}), r"the key in OPENAI_API_KEY \(401\)"),
        (httpx.Response(403, text="<html>no</html>"), r"\(403\): <html>no</html>"),
        (httpx.Response(404, json={"error": {"message": "no model gpt-4o"}}), r"does not have model 'gpt-4o'"),
        (httpx.Response(402, json={"error": {"message": "pay"}}), "no credit left"),
        (
            httpx.Response(429, json={"error": {"message": "quota", "code": "insufficient_quota"}}),
            r"no credit left .*insufficient_quota",
        ),
        (httpx.Response(400, json={"error": {"message": "tools are not supported"}}), "api.tools=text"),
        (httpx.Response(405, text="POST is not allowed"), "refuses the first request"),
        (httpx.Response(302, headers={"location": "https://login.test"}), "redirects to https://login.test"),
        (httpx.ConnectError("name or service not known"), "cannot be reached: name or service not known"),
    ],
    ids=["401", "403", "404", "402", "quota", "400", "405", "302", "no connection"],
)
def test_what_the_user_must_change_ends_the_run_at_once(
    answer: httpx.Response | Exception, said: str, shops: str, tmp_path: Path
) -> None:
    asked = []

    async def handle(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)

    api = FakeApi()
    api.handle = handle  # type: ignore[method-assign]
    with pytest.raises(UsageError, match=said) as caught:
        play(api, shops, tmp_path, 100)
    assert len(asked) <= 8, "no request is sent again"
    assert KEY not in str(caught.value), "the key is never shown"


def test_a_server_that_dies_fails_the_episodes_and_is_not_asked_for_ever(shops: str, tmp_path: Path) -> None:
    api = FakeApi()
    alive = api.handle
    times = list[float]()

    async def dies(request: httpx.Request) -> httpx.Response:
        times.append(asyncio.get_running_loop().time())
        if len(times) > 40:
            raise httpx.ConnectError("connection refused")
        return await alive(request)

    api.handle = dies  # type: ignore[method-assign]
    summary = play(api, shops, tmp_path, 50, settings={"patience": 600.0}, concurrency=8)
    assert summary.outcomes["infra_failed"] + summary.outcomes["completed"] == 50
    assert summary.success.value == 1.0, "a dead server scores nothing"
    assert times[-1] < 2_000, "its patience is for the server, not for each of 42 episodes"
    error = next(e.error for e in load_episodes(tmp_path / "episodes") if e.error)
    assert error.startswith("InfrastructureError: https://api.test/v1 cannot be reached: connection refused (try ")


def test_an_episode_goes_on_where_the_server_failed_and_samples_nothing_again(shops: str, tmp_path: Path) -> None:
    api = FakeApi()
    alive = api.handle
    down = [float("inf"), float("inf")]

    async def fails_for_a_while(request: httpx.Request) -> httpx.Response:
        now = asyncio.get_running_loop().time()
        if len(api.answered) == 2 and down[0] > now:
            down[:] = now, now + 25.0
        if down[0] <= now < down[1]:
            raise httpx.ConnectError("connection refused")
        return await alive(request)

    api.handle = fails_for_a_while  # type: ignore[method-assign]
    play(api, shops, tmp_path, 1, settings={"patience": 20.0}, retries=5)
    (episode,) = load_episodes(tmp_path / "episodes")
    assert episode.outcome == "completed"
    assert episode.attempts > 1, "its server failed for longer than its patience"
    assert episode.redrawn == 0
    assert len(api.answered) == len(episode.turns), "no turn was asked for twice"


def test_a_conversation_that_does_not_fit_is_the_policys_failure(shops: str, tmp_path: Path) -> None:
    api = FakeApi()
    asked: list[int] = []

    async def full(request: httpx.Request) -> httpx.Response:
        import json

        body = json.loads(request.content)
        asked.append(body["max_tokens"])
        if len(body["messages"]) > 3 or body["max_tokens"] > 2048:
            said = "This model's maximum context length is 4096 tokens."
            return httpx.Response(400, json={"error": {"message": said, "code": "context_length_exceeded"}})
        return api._answer(request)

    api.handle = full  # type: ignore[method-assign]
    summary = play(api, shops, tmp_path, 2)
    assert summary.failures == {"policy failed (PromptTooLongError)": 2}
    assert 2048 in asked, "a long answer's room is halved before the conversation is called too long"
    assert min(asked) == 256


def test_a_request_that_waits_long_is_not_a_policy_timeout(shops: str, tmp_path: Path) -> None:
    api = FakeApi(faults={"stall": 0.1})
    summary = play(api, shops, tmp_path, 10, turn_timeout=1.0)
    assert summary.outcomes == {"completed": 10}, "the run's turn_timeout is for policies that run here"


@pytest.mark.slow
def test_requests_at_once_adapt_to_what_the_server_takes(shops: str, tmp_path: Path) -> None:
    free = FakeApi()
    play(free, shops, tmp_path / "free", 64)
    assert free.most_active > 30, "a server that never refuses gets more and more at once"
    narrow = FakeApi(per_minute=20)
    summary = play(narrow, shops, tmp_path / "narrow", 20)
    assert summary.outcomes == {"completed": 20}
    assert narrow.said["over the limit"] < 20, "limits are learned from headers, and mostly kept"


def one(shops: str, folder: Path) -> Episode:
    play(FakeApi(), shops, folder, 1)
    return load_episodes(folder / "episodes")[0]


@pytest.mark.parametrize("learn", [merge, lambda episode: transitions(episode, gamma=1.0)], ids=["rows", "critic"])
def test_a_trainer_refuses_such_episodes_in_words(learn: Callable[[Episode], Any], shops: str, tmp_path: Path) -> None:
    episode = one(shops, tmp_path)
    assert all(turn.by_chat_api for turn in episode.turns)
    with pytest.raises(UsageError, match=r"chat API played episode .* for behavior cloning"):
        learn(episode)
    ids: Any = {"prompt_ids": (1,), "action_ids": (2,), "logprobs": (0.0,), "versions": (-1,)}
    learn(replace(episode, turns=tuple(replace(turn, **ids) for turn in episode.turns)))  # encoded for another model


def test_each_retry_is_one_event_without_the_key(shops: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="turnwise")
    api = FakeApi(faults={"500": 0.2})
    play(api, shops, tmp_path, 5)
    retries = [fields for kind, fields in events(caplog.records) if kind == "retry"]
    assert len(retries) == api.said["500"] > 0
    assert all(fields["server"] == "https://api.test/v1" and fields["pause_seconds"] > 0 for fields in retries)
    assert KEY not in caplog.text


def test_infrastructure_errors_have_no_traceback_of_ours(shops: str, tmp_path: Path) -> None:
    api = FakeApi(faults={"500": 1.0})
    with pytest.raises(
        UsageError, match=r"none of 2 episodes is scored \(2 infrastructure\).*failed \(500\): try later"
    ):
        play(api, shops, tmp_path, 2, settings={"patience": 15.0})
    assert issubclass(InfrastructureError, Exception)


def test_an_absurd_count_of_tokens_does_not_end_the_run(
    shops: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken server may claim any number; billed is at most what was reserved for such a request."""
    honest = fake_api._chat
    monkeypatch.setattr(fake_api, "_chat", lambda said, arguments, read, written, rng: honest(
        said, arguments, rng.choice((read, 2**62)), rng.choice((written, 2**62)), rng
    ))  # fmt: skip
    api = FakeApi(validate=strict)
    summary = play(api, shops, tmp_path, 10, settings={"max_cost": 100.0})
    assert summary.outcomes == {"completed": 10}
    assert summary.api is not None
    assert summary.api.completion_tokens < 10**6
    assert summary.api.cost is not None
    assert summary.api.cost < 100
