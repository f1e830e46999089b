"""Programs that call tools: what they can do, and that whatever they send is an answer and never an exception."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.code.backends import spec_for
from turnwise.envs.code.episode_sandbox import EpisodeSandbox
from turnwise.envs.program.tools import PythonTools
from turnwise.errors import SandboxError

from .worlds import BookshopTools

pytestmark = pytest.mark.usefixtures("backend")


@pytest.fixture
def world() -> BookshopTools:
    env = BookshopTools()
    env.reset(seed=0)
    return env


@pytest.fixture
async def tools(world: BookshopTools) -> AsyncIterator[PythonTools]:
    sandbox = EpisodeSandbox(None, spec_for(None))
    yield PythonTools(world.tools, sandbox, groups=["shop"], calls=20)
    await sandbox.close()


async def test_a_program_calls_tools_and_keeps_its_variables(tools: PythonTools, world: BookshopTools) -> None:
    first = await tools.run("prices = {name: apis.shop.price(name)['price'] for name in apis.shop.names()}")
    assert first.text == "Exit code 0."
    assert [call.name for call in first.calls] == ["shop_names", *["shop_price"] * 3]
    second = await tools.run(
        "from apis.shop import price\nprices, price('Blum', 2) == apis.shop_price(shop='Blum', copies=2)"
    )
    assert second.text == f"({world.prices}, True)\nExit code 0."
    assert (second.failed, second.ended) == ((), False)


async def test_a_bug_of_a_tool_is_no_error_of_the_program(tools: PythonTools) -> None:
    with pytest.raises(KeyError, match="odd"):
        await tools.run("try:\n    apis.note('odd')\nexcept Exception:\n    pass")


async def test_help_tells_what_a_tool_does(tools: PythonTools) -> None:
    help_text = (await tools.run("help(apis.shop.price)")).text
    assert "price(shop: str, copies: int = 1)\n    Ask a shop for its price." in help_text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("apis.shop.price('Dunn')", "ApiError: shop_price: argument 'shop': Input should be"),
        ("apis.shop.price(Shop='Blum')", "TypeError: price() got an unexpected keyword argument 'Shop'"),
        ("apis.shop.price()", "TypeError: price() missing 1 required positional argument: 'shop'"),
        ("apis.shop.price('Blum', copies='many')", "ApiError: shop_price: argument 'copies'"),
        ("apis.note('refused')", "ApiError: no such note; write another"),
        ("apis.note('large')", "ApiError: the answer has 5000013 bytes"),
        ("apis.note('x' * 300_000)", "ApiError: a request has at most 262144 bytes"),
        ("apis.note({1})", "ApiError: note: an argument is not valid JSON"),
        ("apis.note(float('nan'))", "ApiError: note: an argument is not valid JSON"),
        ("apis.mail", "AttributeError: module 'apis' has no attribute 'mail'"),
        ("for _ in range(21): apis.note('a')", "ApiError: no more requests are answered in this run"),
    ],
)
async def test_a_call_that_does_not_fit_is_an_error_inside(tools: PythonTools, code: str, words: str) -> None:
    ran = await tools.run(code)
    assert words in ran.text
    assert "inside.py" not in ran.text
    assert "<host" not in ran.text, "a traceback shows the program and nothing of ours"


@pytest.mark.parametrize(
    "request_",
    [
        b"", b"\xff", b"[]", b"{}", b"NaN", b"[" * 100_000, b'{"tool": 1}', b'{"tool": "shop_price"}',
        b'{"tool": "shop_price", "arguments": 5}', b'{"tool": "shop_price", "arguments": {"shop": NaN}}',
        b'{"tool": "__class__", "arguments": {}}', b'{"tool": "note", "arguments": {"text": ' + b"9" * 5000 + b"}}",
        json.dumps({"tool": "note", "arguments": {"text": "a", "self": 1}}).encode(),
        json.dumps({"tool": "x" * 200_000}).encode(),
    ],
    ids=range(14),
)  # fmt: skip
async def test_a_request_that_is_no_call_is_answered_with_an_error(
    tools: PythonTools, world: BookshopTools, request_: bytes
) -> None:
    ran = await tools.run(f"import json, turnwise_host\nprint(list(json.loads(turnwise_host.ask({request_!r}))))")
    assert ran.text == "['error']\nExit code 0."
    assert not world.asked


async def test_nothing_can_be_called_after_the_end(tools: PythonTools, world: BookshopTools) -> None:
    ran = await tools.run(
        "apis.shop.buy(5)\nfor n in (1, 2):\n    try: apis.shop.buy(n)\n    except ApiError as e: print(e)"
    )
    assert ran.ended
    assert ran.text.count("the episode has ended") == 2
    assert world.bought == [5]
    assert ran.failed == ("shop_buy", "shop_buy")


async def test_a_refused_end_is_no_end(tools: PythonTools) -> None:
    assert not (await tools.run("apis.shop.buy('cheap')")).ended


async def test_what_the_machinery_raises_passes_out(tools: PythonTools) -> None:
    with pytest.raises(ConnectionError, match="the tool server failed"):
        await tools.run("try: apis.note('broken')\nexcept BaseException: pass")


async def test_a_sandbox_that_dies_passes_out(tools: PythonTools) -> None:
    await tools.run("1")
    await (await tools.episode_sandbox.sandbox()).destroy()
    with pytest.raises(SandboxError):
        await tools.run("1")


async def test_a_session_that_ends_is_said_and_the_next_has_the_tools(tools: PythonTools, world: BookshopTools) -> None:
    ran = await tools.run("x = 1\nimport os; os._exit(3)")
    assert ran.text == "Exit code 3.\nThe session has ended: the next program finds none of its variables."
    assert "NameError" in (await tools.run("x")).text
    assert (await tools.run("apis.shop.names()")).text.startswith(str(list(world.prices)))


async def test_a_file_in_the_way_of_the_standard_library_is_the_programs_own_harm(tools: PythonTools) -> None:
    await tools.run("open('json.py', 'w').write('1 / 0')\nimport os; os._exit(0)")
    with pytest.raises(tw.ToolError, match="could not start"):
        await tools.run("1")


async def test_whoever_performs_calls_may_disturb_them(world: BookshopTools) -> None:
    def disturbed(tool: tw.Tool, call: tw.ToolCall) -> Any:
        raise tw.ToolError("try again")

    sandbox = EpisodeSandbox(None, spec_for(None))
    ran = await PythonTools(world.tools, sandbox, perform=disturbed).run("apis.note('a')")
    assert "ApiError: try again" in ran.text
    await sandbox.close()
