"""Parse requests of the chat API strictly, and refuse unsupported ones with an error message."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..envs.messages import Message, Role, TextPart, ToolCall
from ..errors import RequestError
from .tool_schemas import check_function

ROLES: Mapping[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}
CHANGES_THE_DISTRIBUTION: Mapping[str, Any] = {
    "top_p": 1,
    "top_k": -1,
    "min_p": 0,
    "n": 1,
    "best_of": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "repetition_penalty": 1,
    "logit_bias": {},
}
"""Parameters and the only value that leaves the policy's distribution unchanged. Any other value would make recorded
log-probabilities, and so the training, wrong (trap 17)."""
HARMLESS = frozenset(
    {
        "client_metadata",
        "metadata",
        "parallel_tool_calls",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
    }
)
"""Parameters that are accepted and have no effect."""
CHAT = frozenset(
    {
        "functions",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "model",
        "response_format",
        "seed",
        "stop",
        "stream",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_logprobs",
    }
)


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One request for a completion, from either API.

    Args:
        messages: whole conversation, as the client has it.
        tools: JSON descriptions, as chat templates need them.
        temperature: temperature; ``None`` leaves it to the endpoint, as for all arguments that follow.
        max_tokens: maximum tokens of the completion.
        seed: seed of this request.
        stop: texts before which the completion ends.
        stream: whether to answer in chunks.
        stream_usage: whether to end a stream with a chunk that counts tokens.
        logprobs: whether to return the log-probability of every token.
    """

    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...] = ()
    temperature: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    stream: bool = False
    stream_usage: bool = False
    logprobs: bool = False


def parsed(text: str | bytes) -> Any:
    """Parse JSON text into values that can be encoded, recorded and returned.

    Raises:
        RequestError: it is not JSON, has invalid numbers, is nested too deeply, or has a lone surrogate.
    """
    try:
        read = json.loads(text, parse_constant=_no_number)
        json.dumps(read, ensure_ascii=False).encode()
    except RecursionError:
        raise RequestError("the JSON is nested too deeply") from None
    except ValueError as error:
        raise RequestError(f"the body is not JSON that the server accepts: {error}") from None
    return read


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def read_chat(body: Any) -> ChatRequest:
    """Parse the JSON body of ``/v1/chat/completions``.

    Raises:
        RequestError: something in it is wrong or unsupported.
    """
    given = options(body, CHAT)
    messages = given.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestError("messages must be a list of at least one message", param="messages")
    refuse_format(given.get("response_format"), "response_format")
    if given.get("top_logprobs"):
        raise unsupported(
            "top_logprobs", given["top_logprobs"], "only the log-probabilities of sampled tokens are known"
        )
    if given.get("functions"):
        raise unsupported("functions", "…", "describe functions in tools")
    limit = given.get("max_completion_tokens", given.get("max_tokens"))
    return ChatRequest(
        tuple(_message(entry, f"messages[{place}]") for place, entry in enumerate(messages)),
        tools=wanted_tools(given, lambda entry, where: _described(entry, where)),
        temperature=read_number(given, "temperature"),
        max_tokens=limit if limit is None else whole_number(limit, "max_tokens"),
        seed=None if given.get("seed") is None else whole_number(given["seed"], "seed", least=None),
        stop=stop_texts(given.get("stop"), "stop"),
        stream=flag(given, "stream"),
        stream_usage=flag(given.get("stream_options") or {}, "include_usage"),
        logprobs=flag(given, "logprobs"),
    )


def options(body: Any, known: Iterable[str], *, many_calls: bool = False) -> dict[str, Any]:
    """Return the parameters that have a value, after checking that they are known and keep the policy's distribution.

    Args:
        body: JSON of the request.
        known: names of the parameters, beside those without an effect.
        many_calls: whether the client reads several calls in one answer, whatever it requests.

    Raises:
        RequestError: one is unknown, or would filter or reshape the distribution.
    """
    if not isinstance(body, dict):
        raise RequestError("the body must be a JSON object")
    given = {name: value for name, value in body.items() if value is not None}
    for name, neutral in CHANGES_THE_DISTRIBUTION.items():
        if name in given and given.pop(name) != neutral:
            raise unsupported(
                name, body[name], "tokens must come from the unmodified policy, or they could not train it"
            )
    if given.get("parallel_tool_calls") is False and not many_calls:
        raise unsupported(
            "parallel_tool_calls",
            False,
            "the policy may always call several tools at once",
        )
    unknown = sorted(set(given) - set(known) - HARMLESS)
    if unknown:
        raise RequestError(f"unknown parameter {unknown[0]!r}", param=unknown[0], code="unknown_parameter")
    return given


def wanted_tools(given: Mapping[str, Any], describe: Any) -> tuple[Mapping[str, Any], ...]:
    """Return the tools to show, or none if ``tool_choice`` says so.

    Raises:
        RequestError: a call is required, which would need a filter on the samples.
    """
    tools, choice = given.get("tools") or [], given.get("tool_choice", "auto")
    if not isinstance(tools, list):
        raise RequestError("tools must be a list", param="tools")
    if choice not in ("auto", "none"):
        raise unsupported(
            "tool_choice",
            choice,
            "a call cannot be forced without changing the sampling distribution; use 'auto'",
        )
    shown = tuple(describe(entry, f"tools[{place}]") for place, entry in enumerate(tools))
    for place, each in enumerate(shown):
        check_function(each["function"], f"tools[{place}]")
    return shown if choice == "auto" else ()


def refuse_format(wanted: Any, param: str) -> None:
    """Refuse any format of the answer other than plain text.

    Raises:
        RequestError: another format is requested.
    """
    kind = wanted.get("type") if isinstance(wanted, dict) else wanted
    if kind not in (None, "text"):
        raise unsupported(param, kind, "a format cannot be forced without changing the sampling distribution")


def unsupported(param: str, value: Any, why: str) -> RequestError:
    """Return the error for a parameter that is known but unsupported."""
    shown = json.dumps(value, default=str)
    return RequestError(
        f"{param}={shown if len(shown) < 80 else '…'} is not supported: {why}",
        param=param,
        code="unsupported_parameter",
    )


def text_of(content: Any, where: str) -> str:
    """Return the text of a message's content: a string, parts of text, or nothing.

    Raises:
        RequestError: there is something else in it, such as an image.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise RequestError(f"{where} must be text or a list of parts", param=where)
    texts = []
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        if kind not in ("text", "input_text", "output_text", "refusal") or not isinstance(
            part.get("text", part.get("refusal")), str
        ):
            raise RequestError(f"{where} has a part of type {kind!r}, but this policy reads only text", param=where)
        texts.append(part.get("text", part.get("refusal")))
    return "".join(texts)


def called(name: Any, arguments: Any, call_id: Any, where: str) -> ToolCall:
    """Parse a tool call as a client repeats it.

    Raises:
        RequestError: its arguments are not the JSON of an object.
    """
    try:
        read = parsed(arguments) if isinstance(arguments, str) and arguments.strip() else arguments or {}
    except RequestError:
        read = None
    if not isinstance(read, dict) or not isinstance(name, str):
        raise RequestError(f"{where} needs a name and, as arguments, the JSON of an object", param=where)
    return ToolCall(name, read, str(call_id or ""))


def flag(given: Mapping[str, Any], name: str) -> bool:
    """Return a boolean parameter, or false if it is missing.

    Raises:
        RequestError: it is not a boolean.
    """
    value = given.get(name, False) if isinstance(given, Mapping) else None
    if not isinstance(value, bool):
        raise RequestError(f"{name} must be true or false", param=name)
    return value


def read_number(given: Mapping[str, Any], name: str) -> float | None:
    """Return a parameter that is a non-negative number, or ``None`` if it is missing.

    Raises:
        RequestError: it is not such a number.
    """
    value = given.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 100):
        raise RequestError(f"{name} must be a number that is not negative; got {value!r}", param=name)
    return None if value is None else float(value)


def whole_number(value: Any, name: str, *, least: int | None = 1) -> int:
    """Return a parameter that is an integer.

    Raises:
        RequestError: it is not an integer, or too small.
    """
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise RequestError(f"{name} must be an integer{'' if least is None else f' of at least {least}'}", param=name)
    return value


def _message(entry: Any, where: str) -> Message:
    if not isinstance(entry, dict) or entry.get("role") not in ROLES:
        role = entry.get("role") if isinstance(entry, dict) else entry
        raise RequestError(f"{where} has role {role!r}; roles are {', '.join(ROLES)}", param=where)
    text = text_of(entry.get("content"), f"{where}.content")
    calls: Sequence[Any] = entry.get("tool_calls") or ()
    checked = []
    for place, call in enumerate(calls):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            raise RequestError(f"{where}.tool_calls[{place}] does not call a function", param=where)
        checked.append(called(function.get("name"), function.get("arguments"), call.get("id"), where))
    return said(ROLES[entry["role"]], text, checked, name=entry.get("name"), answers=entry.get("tool_call_id"))


def said(role: Role, text: str, calls: Sequence[ToolCall] = (), *, name: Any = None, answers: Any = None) -> Message:
    """Return a message of one text part, or of none."""
    parts = (TextPart(text),) if text or not calls else ()
    return Message(role, parts, tuple(calls), str(name) if name else None, str(answers) if answers else None)


def _described(entry: Any, where: str) -> Mapping[str, Any]:
    function = entry.get("function") if isinstance(entry, dict) and entry.get("type") == "function" else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise RequestError(f"{where} must be a function with a name", param=where)
    return dict(entry)


def stop_texts(value: Any, name: str) -> tuple[str, ...]:
    """Return the texts before which a completion ends.

    Raises:
        RequestError: one is empty or no text, or there are too many.
    """
    stops = [value] if isinstance(value, str) else value or []
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops) or len(stops) > 16:
        raise RequestError(f"{name} must be a string or a list of up to 16 strings, none of them empty", param=name)
    return tuple(stops)
