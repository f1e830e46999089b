"""Requests leave a server nothing to decide, and its answers are checked against them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise.errors import InfrastructureError, PolicyServerError, UsageError
from turnwise.inference.policy import Finish, Sampling
from turnwise.inference.serving.answers import Answer, finish_of, reason, refusal
from turnwise.inference.serving.http import reading, routes

SAMPLING = Sampling(temperature=0.7, max_tokens=3, stop_ids=(9, 8), seed=5)
BOTH = pytest.mark.parametrize("native", [True, False], ids=["native", "completions"])


def how(native: bool) -> dict[str, Any]:
    body: Any = routes.generate([1, 2], SAMPLING, model="m", native=native).body
    return dict(body["sampling_params"] if native else body)


def answer(native: bool, **changes: Any) -> dict[str, Any]:
    """The answer of vLLM 0.32 to ``SAMPLING`` on the prompt 1, 2, with changes to the choice or below it."""
    ids, values = changes.pop("ids", [4, 5, 9]), changes.pop("logprobs", [-0.1, -0.2, -0.3])
    reported = changes.pop("reported", ids)
    if native:
        logprobs: Any = {"content": [{"token_id": i, "logprob": v} for i, v in zip(reported, values, strict=True)]}
    else:
        logprobs = {"tokens": [f"token_id:{i}" for i in reported], "token_logprobs": values}
    prompt = changes.pop("prompt", [1, 2])
    choice = {"token_ids": ids, "finish_reason": "stop", "logprobs": logprobs, **changes}
    whole: dict[str, Any] = {"choices": [choice], "usage": {"prompt_tokens_details": {"cached_tokens": 1}}}
    (whole if native else choice)["prompt_token_ids"] = prompt
    return whole


def read(native: bool, **changes: Any) -> Any:
    return reading.read_served(answer(native, **changes), (1, 2), SAMPLING, native=native)


@BOTH
def test_nothing_is_left_to_the_defaults_of_a_server(native: bool) -> None:
    """A model's generation_config.json may hold any of these; silence would let it."""
    asked = how(native)
    neutral: dict[str, Any] = {
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "n": 1,
        "min_tokens": 0,
    }
    neutral |= {"presence_penalty": 0.0, "frequency_penalty": 0.0, "stop": [], "bad_words": [], "watermarking": False}
    assert {key: asked[key] for key in neutral} == neutral
    assert asked["ignore_eos"] is True, "only the stop ids asked for may stop it"
    assert asked["skip_special_tokens"] is False
    assert (asked["temperature"], asked["max_tokens"], asked["seed"], asked["logprobs"]) == (0.7, 3, 5, 0)
    assert asked["stop_token_ids"] == [9, 8]


def test_ids_travel_as_ids() -> None:
    native, text = (routes.generate([7, 7, 0], SAMPLING, model="m", native=n, session="e1") for n in (True, False))
    assert native.body is not None
    assert text.body is not None
    assert native.body["token_ids"] == text.body["prompt"] == [7, 7, 0]
    assert native.body["return_token_ids"] is text.body["return_token_ids"] is True
    assert text.body["add_special_tokens"] is False, "the server must add nothing"
    assert text.body["truncate_prompt_tokens"] is None, "and cut nothing"
    assert native.headers == text.headers == {"X-Session-ID": "e1"}


@BOTH
def test_an_answer_as_it_should_be(native: bool) -> None:
    served = read(native)
    assert served.completion.token_ids == (4, 5, 9)
    assert served.completion.logprobs == (-0.1, -0.2, -0.3)
    assert (served.completion.finish, served.prompt_ids, served.cached) == (Finish.STOP, (1, 2), 1)


@BOTH
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt": [1]}, r"truncated the prompt: 2 ids \[1, 2\] were sent, and it read 1 ids \[1\]"),
        ({"prompt": [1, 3]}, "did not read the prompt as it was sent.*differ from index 1"),
        ({"prompt": [0, 1, 2]}, "did not read the prompt as it was sent"),
        ({"prompt": None}, "does not return the prompt ids"),
        ({"prompt": ["1", "2"]}, "not an array of integers"),
        ({"ids": [4, 5, -9]}, "returned the id -9"),
        ({"ids": [4, 2**31, 9]}, "returned the id 2147483648"),
        ({"ids": [4, 5.0, 9]}, "not an array of integers"),
        ({"logprobs": [-0.1, 0.2, -0.3]}, "returned the log-probability 0.2"),
        ({"logprobs": [-0.1, -500, -0.3]}, "returned the log-probability -500"),
        ({"logprobs": [-0.1, "-0.2", -0.3]}, "as a log-probability, which is not a number"),
        ({"logprobs": [-0.1, True, -0.3]}, "as a log-probability, which is not a number"),
        ({"reported": [4, 6, 9]}, "changed on its way"),
        ({"ids": [4, 5], "logprobs": [-0.1, -0.2], "reported": [4, 5]}, "none of the stop ids"),
        ({"ids": [], "logprobs": [], "reported": []}, "none of the stop ids"),
        ({"ids": [4, 5], "logprobs": [0, 0], "reported": [4, 5], "finish_reason": "length"}, "limit of its own"),
        ({"finish_reason": "repetition"}, "'repetition'"),
        ({"finish_reason": None}, "None"),
        ({"token_ids": None}, "not an array of integers"),
        ({"weight_versions": [{"version": "me:1", "start": 0, "end": 2}]}, "do not cover"),
        ({"weight_versions": [{"version": "me:1", "start": 1, "end": 3}]}, "do not cover"),
    ],
)
def test_an_answer_that_is_not_exact_is_refused_with_what_is_wrong(
    native: bool, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(PolicyServerError, match=message):
        read(native, **changes)


@BOTH
@pytest.mark.parametrize("value", [-9999.0, math.nan, -math.inf])
def test_a_log_probability_that_is_no_number_is_the_servers_fault(native: bool, value: float) -> None:
    with pytest.raises(PolicyServerError, match="not finite"):
        read(native, logprobs=[-0.1, value, -0.3])


@BOTH
@pytest.mark.parametrize("content", [None, [], {}, {"choices": []}, {"choices": [{}]}, "<html>"])
def test_an_answer_of_another_shape_is_one_line(native: bool, content: Any) -> None:
    with pytest.raises(PolicyServerError, match=r"not what vLLM 0\.26 to 0\.32 sends") as caught:
        reading.read_served(content, (1, 2), SAMPLING, native=native)
    assert "\n" not in str(caught.value)


@BOTH
def test_what_was_aborted_at_once_is_empty_and_nothing_worse(native: bool) -> None:
    served = read(native, ids=[], reported=[], logprobs=[], finish_reason="abort")
    assert (served.completion.token_ids, served.completion.finish) == ((), Finish.ABORT)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 5)), min_size=1, max_size=6))
def test_spans_say_each_tokens_version(runs: list[tuple[int, int]]) -> None:
    sent, place = [], 0
    for version, length in runs:
        sent.append({"version": f"me:{version}", "start": place, "end": place + length})
        place += length
    spans = reading.read_spans(sent, place, "me")
    assert [version for version, start, end in spans for _ in range(start, end)] == [
        v for v, n in runs for _ in range(n)
    ]


def test_versions_that_somebody_else_named_are_not_ours() -> None:
    assert reading.read_spans([{"version": "default", "start": 0, "end": 3}], 3) == ()
    assert reading.read_spans(None, 3) == reading.read_spans([], 0) == ()
    others = [{"version": "other:7", "start": 0, "end": 3}]
    assert reading.read_spans(others, 3) == ((7, 0, 3),), "who names nothing takes the server's word"
    with pytest.raises(PolicyServerError, match=r"another run named its weights 'other:7'.*its own servers"):
        reading.read_spans(others, 3, "me")


@pytest.mark.parametrize("version", ["0.26.0", "0.31.1", "0.32.0", "0.32.0+cpu"])
def test_supported_versions(version: str) -> None:
    assert reading.read_version({"version": version}) == version


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"version": "0.25.1"}, r"runs vLLM 0\.25\.1, but Turnwise supports 0\.26 to 0\.32 .*0\.32\.0.*upgrade"),
        ({"version": "0.33.0"}, "use an older one"),
        ({"version": "1.0.0"}, "use an older one"),
        ({"version": "dev"}, "not a version of vLLM"),
        ({}, "not a version of vLLM"),
        ("hello", "not a version of vLLM"),
    ],
)
def test_other_versions_are_refused_in_words(content: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        reading.read_version(content)


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (400, {"error": {"message": "… is longer than the maximum model length of 256."}}, PolicyServerError),
        (400, {"error": {"message": "Token id 9999 is out of vocabulary"}}, PolicyServerError),
        (422, {"detail": [{"loc": ["body"]}]}, PolicyServerError),
        (401, {"error": "Unauthorized"}, UsageError),
        (404, {"error": {"message": "The model `a7` does not exist."}}, InfrastructureError),
        (429, "", InfrastructureError),
        (500, "Internal Server Error", InfrastructureError),
        (503, {"error": {"message": "EngineCore encountered an issue"}}, InfrastructureError),
    ],
)
def test_what_a_refusal_means(status: int, content: Any, kind: type[Exception]) -> None:
    error = refusal(Answer(status, content))
    assert type(error) is kind
    assert reason(content) in str(error)


def test_what_a_server_says_of_itself_may_be_missing() -> None:
    nothing = {"lora_config": None, "weight_transfer_config": None, "parallel_config": {"data_parallel_size": None}}
    assert reading.read_info(None) == reading.read_info("text") == reading.Info()
    assert reading.read_info({"vllm_config": nothing}) == reading.Info()
    whole = {"lora_config": {"max_lora_rank": 8}, "weight_transfer_config": {"backend": "nccl"}}
    whole |= {"model_config": {"enable_sleep_mode": True}}
    whole |= {"parallel_config": {"tensor_parallel_size": 2, "data_parallel_size": 3}}
    assert reading.read_info({"vllm_config": whole}) == reading.Info("nccl", 8, None, sleeps=True, workers=6)
    assert reading.read_started("nothing") is None
    assert reading.read_started("a 1\nprocess_start_time_seconds 1.5e+09\n") == 1.5e9


@pytest.mark.parametrize("content", [{"data": [None]}, {"data": "x"}, {}, "not JSON", [1], {"data": [{"root": "x"}]}])
def test_what_is_no_list_of_models_is_refused(content: object) -> None:
    with pytest.raises(UsageError, match="which is not a list of models"):
        reading.read_cards(content)


@pytest.mark.parametrize("ids", [(1, 9, 9), (8, 1, 9), (1, 2, 1, 9)], ids=["twice", "first", "too long"])
def test_an_answer_that_goes_on_after_a_stop_id_is_the_servers_fault(ids: tuple[int, ...]) -> None:
    with pytest.raises(PolicyServerError, match="at most 3 tokens, up to a stop id of"):
        finish_of("stop", ids, SAMPLING)
    assert finish_of("stop", (1, 2, 9), SAMPLING) is Finish.STOP
