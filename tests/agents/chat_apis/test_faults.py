"""The meaning of a status and its message: who is at fault, and whether to retry."""

from __future__ import annotations

import json

import pytest

from turnwise.agents.chat_apis.faults import FaultError, RequestRefusedError, Response, Server, content, refused
from turnwise.errors import InfrastructureError, PolicyError, PromptTooLongError, UsageError

SERVER = Server("https://api.test/v1", "gpt-4o", "sk-secret", "OPENAI_API_KEY")
BILLING = "Rate limit reached. Add a payment method at https://platform.openai.com/account/billing."


@pytest.mark.parametrize(
    ("status", "message", "answered", "kind"),
    [
        (429, BILLING, False, FaultError),  # mentions billing, and is a plain rate limit
        (429, "You exceeded your current quota, please check your plan and billing details.", True, FaultError),
        (400, "Your credit balance is too low to access the API.", True, UsageError),
        (403, "Your input was flagged", True, PolicyError),
        (400, "Error code: content_filter", False, PolicyError),
        (403, "Country not supported", True, UsageError),
        (404, "no such route", True, FaultError),
        (404, "The model `gpt-9` does not exist", True, UsageError),
        (413, "Request exceeds the maximum size", True, PromptTooLongError),
        (418, "I am a teapot", False, RequestRefusedError),
        (500, "oops sk-secret", True, FaultError),
        (524, "<html>a timeout occurred</html>", True, FaultError),
    ],
)
def test_a_status_and_its_words(status: int, message: str, answered: bool, kind: type[Exception]) -> None:
    body = json.dumps({"error": {"message": message}}).encode()
    with pytest.raises(kind) as caught:
        content(Response(status, {}, body), SERVER, answered=answered)
    assert type(caught.value) is kind
    assert "sk-secret" not in str(caught.value), "the key is never shown"


@pytest.mark.parametrize(
    "message",
    [
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        "Your input exceeds the context window of this model.",
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000",
        "the request exceeds the available context size, try increasing it",
        "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
    ],
)
def test_what_does_not_fit_is_recognized_in_every_providers_words(message: str) -> None:
    error = RequestRefusedError(message)
    assert error.too_long
    assert isinstance(refused(error, SERVER, answered=False, shortest=True), PromptTooLongError)


def test_a_refusal_is_the_users_before_the_first_answer_and_the_servers_after() -> None:
    error = RequestRefusedError("(400): unknown field 'temperature'")
    assert isinstance(refused(error, SERVER, answered=False, shortest=False), UsageError)
    assert isinstance(refused(error, SERVER, answered=True, shortest=False), InfrastructureError)
