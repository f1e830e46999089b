"""Playwright's snapshots as trees."""

from __future__ import annotations

import pytest

from turnwise.envs.web.chromium.look import plain_source
from turnwise.envs.web.chromium.snapshot import nodes_of
from turnwise.envs.web.page import Node
from turnwise.errors import InfrastructureError


def test_lines_become_nodes() -> None:
    [cart, text, box, sort] = nodes_of(
        '- link "Cart" [ref=e7] [cursor=pointer]:\n  - /url: /cart\n- text: "12"\n'
        '- \'searchbox "Search: \\"now\\"" [active] [ref=e16]\': lamp\n'
        '- \'combobox "Sort: by" [disabled] [ref=e18]\':\n  - option "Name" [selected]\n'
    )
    assert cart == Node("link", "Cart", "e7", url="/cart", pointer=True)
    assert text == Node("text", "12")
    assert box == Node("searchbox", 'Search: "now"', "e16", "lamp")
    assert sort.states == ("disabled",)
    assert sort.children == (Node("option", "Name", states=("selected",)),)


@pytest.mark.parametrize("text", ["2024-03-09", "no", "null", "1e3", "0x10", "~"])
def test_what_looks_like_a_value_stays_a_text(text: str) -> None:
    [cell] = nodes_of(f"- cell [ref=e1]: {text}")
    assert cell.children == (Node("text", text),)
    [field] = nodes_of(f"- textbox [ref=e1]: {text}")
    assert field.value == text


def test_an_empty_page_has_no_nodes() -> None:
    assert nodes_of("") == ()


def test_what_is_no_snapshot_is_said() -> None:
    for text in ("- [", '- link "Cart', "- link {x}"):
        with pytest.raises(InfrastructureError):
            nodes_of(text)


def test_source_without_what_nobody_reads() -> None:
    page = "<html><head><style>a{}</style></head><body><!-- x --><script>1</script><p>1</p>\n\n<p>2</p></body></html>"
    assert plain_source(page) == "<html><head></head><body><p>1</p>\n<p>2</p></body></html>"
