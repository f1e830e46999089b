"""Tools as Python: names, signatures and documentation that hold for any tool, also one with odd names."""

from __future__ import annotations

import ast
from typing import Any

import pytest

import turnwise as tw
from turnwise.envs.program.module import Module, function_of
from turnwise.envs.tools import Tool
from turnwise.errors import ContractError

from .worlds import BookshopTools

ODD = '"""\n\\N{DIGIT ONE}{0}\'); import os; (\''


def tool(
    name: str, properties: dict[str, Any] | None = None, required: tuple[str, ...] = (), about: str = "X."
) -> Tool:
    model = BookshopTools().tools[0].arguments
    schema = {"type": "object", "properties": properties or {}, "required": list(required)}
    return Tool(name, about, schema, model, print)


def test_a_tool_becomes_a_function_with_its_signature() -> None:
    price, names, note, _ = (function_of(tool, ["shop"]) for tool in BookshopTools().tools)
    assert price.signature == "shop.price(shop: str, copies: int = 1)"
    assert names.path == ("shop", "names")
    assert note.signature == "note(text: str, lines=None)"
    assert "shop: name of the shop to ask; one of 'Adler', 'Blum', 'Cole'" in price.documentation


def test_required_parameters_come_first_and_the_longest_group_is_taken() -> None:
    odd = tool("mail_box_list", {"limit": {"type": "integer"}, "of": {"type": "string"}}, ("of",))
    assert function_of(odd, ["mail", "mail_box"]).signature == "mail_box.list(of: str, limit: int = ...)"


@pytest.mark.parametrize(
    ("name", "python"),
    [("a-b.c", "a_b_c"), ("from", "from_"), ("2fast", "_2fast"), ("naïve", "na_ve"), ("", "_"), ("x(); y", "x____y")],
)
def test_names_that_are_none_in_python_become_the_nearest(name: str, python: str) -> None:
    assert function_of(tool(name)).path == (python,)


def test_no_name_or_text_of_a_tool_can_break_out_of_the_source() -> None:
    properties = {
        each: {"type": ODD, "default": ODD, "description": ODD} for each in (ODD, "call", "from", "a b", "a_b")
    }
    module = Module([tool(ODD, properties, about=ODD), tool("t", {"x": {"default": float("inf")}})])
    tree = ast.parse(module.source())
    assert len(tree.body) == 3, "one exec, two imports"
    inside = ast.literal_eval(tree.body[0].value.args[0].args[0])  # type: ignore[attr-defined]
    defined = [node for node in ast.parse(inside).body if isinstance(node, ast.FunctionDef)]
    assert [node.name for node in defined][-2:] == ["function_0", "function_1"]
    assert len({argument.arg for argument in defined[-2].args.args}) == 5


@pytest.mark.parametrize(
    ("names", "groups"),
    [(("a.b", "a-b"), ()), (("mail", "mail_read"), ("mail",)), (("ApiError",), ())],
    ids=["two tools", "a tool and a group", "the error"],
)
def test_two_things_of_one_name_are_refused(names: tuple[str, ...], groups: tuple[str, ...]) -> None:
    with pytest.raises(ContractError, match="rename a tool"):
        Module([tool(name) for name in names], groups)


def test_a_call_becomes_a_line() -> None:
    module = Module([*BookshopTools().tools, tool("odd", {"from": {}}, ("from",))], ["shop"])
    assert module.line(tw.ToolCall("shop_price", {"shop": "Blum"})) == "print(apis.shop.price(shop='Blum'))"
    assert module.line(tw.ToolCall("odd", {"from": None})) == "print(apis.odd(from_=None))"
    assert module.line(tw.ToolCall("no such", {"a": [1.5, True]})) == "print(apis.no_such(a=[1.5, True]))"


def test_the_manual_says_as_much_as_fits() -> None:
    module = Module(BookshopTools().tools, ["shop"])
    assert "apis.shop.names(): List the shops." in module.manual()
    assert module.manual(150).splitlines()[1] == "apis.shop.names()"
    assert module.manual(80).splitlines()[1] == "apis.shop.names"
    assert module.manual(10) == "4 functions; dir(apis) names them."
