"""Observation of a Chromium tab: its tree, its source, and its screenshot with marks."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from lxml import html

from ..browser import Wanted
from ..page import Node, Page, with_ids
from .server import UNKEPT
from .snapshot import nodes_of

if TYPE_CHECKING:
    from playwright.async_api import Page as Shown

    from .tab import Tab

BOX = re.compile(r"\[ref=(\w+)\].*?\[box=(-?[\d.]+),(-?[\d.]+),([\d.]+),([\d.]+)\]")
INK, PAPER = (255, 255, 255), (200, 20, 60)
"""Colors of a mark's number and of its background, RGB."""
Box = tuple[float, float, float, float]
"""Left, top, width and height, in pixels of the window."""


async def seen(tabs: Sequence[Tab], front: int, wanted: Wanted) -> Page:
    """Return the observation of the current tab.

    Args:
        tabs: tabs of the window.
        front: index of the current tab.
        wanted: contents of the observation.
    """
    page = tabs[front].page
    snapshot = await page.aria_snapshot(mode="ai", boxes=wanted.marks)
    nodes = with_ids(nodes_of(snapshot), every=wanted.every)
    by_id = {node.id: node for top in nodes for node in top.walk() if node.id}
    title = await page.title()
    titles = [title if tab.page is page else await tab.page.title() for tab in tabs]
    names = tuple(name or tab.page.url for name, tab in zip(titles, tabs, strict=True))
    source = plain_source(await page.content()) if wanted.source else ""
    picture = await _picture(page, by_id, snapshot, wanted) if wanted.picture or wanted.marks else b""
    return Page(page.url, title, nodes, names, front, source, picture, by_id=by_id)


async def _picture(page: Shown, by_id: Mapping[str, Node], snapshot: str, wanted: Wanted) -> bytes:
    picture = await page.screenshot(animations="disabled", caret="hide")
    if not wanted.marks:
        return picture
    boxes: dict[str, Any] = {ref: tuple(map(float, box)) for ref, *box in BOX.findall(snapshot)}
    return marked(picture, {id: boxes[node.ref] for id, node in by_id.items() if node.ref in boxes})


def marked(picture: bytes, boxes: Mapping[str, Box]) -> bytes:
    """Return a screenshot with numbers and frames drawn over elements (set-of-marks, https://arxiv.org/abs/2310.11441).

    Args:
        ``picture``: screenshot, PNG.
        boxes: boxes of the elements, by id; an element outside of the screenshot gets no mark.
    """
    from PIL import Image, ImageDraw, ImageFont  # a dependency of matplotlib, which Turnwise needs

    with Image.open(io.BytesIO(picture)) as opened:
        image = opened.convert("RGB")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(12)
    for id, (left, top, width, height) in boxes.items():
        if not (width and height and -width < left < image.width and -height < top < image.height):
            continue
        draw.rectangle((left, top, left + width - 1, top + height - 1), outline=PAPER)
        x0, y0, x1, y1 = font.getbbox(id)
        x, y = max(0.0, min(left, image.width - x1 - 4)), max(0.0, top)
        draw.rectangle((x, y, x + x1 - x0 + 3, y + y1 - y0 + 3), fill=PAPER)
        draw.text((x + 2 - x0, y + 2 - y0), id, fill=INK, font=font)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def plain_source(text: str) -> str:
    """Return HTML without scripts, styles and comments.

    Args:
        text: HTML source.
    """
    root: Any = html.document_fromstring(text.replace(UNKEPT, "<form"))
    for one in list(root.iter()):
        if not isinstance(one.tag, str) or one.tag in ("script", "style", "noscript", "template", "link"):
            one.drop_tree()
    lines = (line.rstrip() for line in html.tostring(root, encoding="unicode").splitlines())
    return "\n".join(line for line in lines if line)
