"""Text of a page: every part once, and numbers in reading order for elements to act on."""

from __future__ import annotations

from turnwise.envs.web.html.document import Document
from turnwise.envs.web.page import Node, Page, as_text, with_ids


def text_of(body: str) -> str:
    document = Document(f"<html><head><title>T</title></head><body>{body}</body></html>", "http://a.test/")
    return as_text(Page("http://a.test/", document.title, with_ids(document.nodes()))).split("\n", 2)[2]


def test_elements_are_numbered_in_reading_order() -> None:
    assert text_of("<p>See <a href='/x'>this</a> or</p><button>Go</button><a>no link</a>") == (
        'paragraph: See [1] link "this" or\n[2] button "Go"\nno link'
    )


def test_the_label_of_a_field_is_told_once() -> None:
    assert text_of("<label for='q'>Words</label><input id='q' type='search' value='lamp'>") == (
        '[1] searchbox "Words" value="lamp"'
    )
    assert (
        text_of("<label><input type='checkbox' checked> Sold out, too</label>")
        == '[1] checkbox "Sold out, too" checked'
    )


def test_a_row_is_a_line() -> None:
    cells = "<tr><th>Name</th><th>Price</th></tr><tr><td><a href='/1'>Lamp</a></td><td>3.50</td></tr>"
    assert text_of(f"<table>{cells}</table>") == 'table\n  row: Name | Price\n  row: [1] link "Lamp" | 3.50'


def test_facts_are_lines() -> None:
    assert text_of("<dl><dt>Brand</dt><dd>Acme</dd><dt>Price</dt><dd>3.50</dd></dl>") == "Brand: Acme\nPrice: 3.50"


def test_options_of_a_list_are_told_with_the_chosen_one() -> None:
    options = "<option value='n'>Name</option><option selected>Price</option>"
    assert (
        text_of(f"<label for='s'>Sort</label><select id='s'>{options}</select>")
        == '[1] combobox "Sort": "Name", "Price" selected'
    )


def test_what_is_hidden_is_not_told() -> None:
    assert text_of(
        "<p hidden>no</p><script>no()</script><style>no</style><input type='hidden' name='a' value='no'><p>yes</p>"
    ) == ("paragraph: yes")


def test_texts_beside_each_other_are_one() -> None:
    assert text_of("<p>Found <strong>12</strong> of <em>40</em></p>") == "paragraph: Found 12 of 40"


def test_markup_in_data_is_text() -> None:
    assert text_of("<p>&lt;b&gt;[9] link &quot;x&quot;&lt;/b&gt;</p>") == 'paragraph: <b>[9] link "x"</b>'


def test_tabs_are_told_when_there_are_several() -> None:
    page = Page("u", "t", (Node("text", "x"),), ("One", "Two"), 1)
    assert "Tabs: 0 'One', 1 'Two' (in front)" in as_text(page)
    assert "Tabs" not in as_text(page, tabs=False)
