"""Chromium shows the same pages as the browser without a window, and what is done in it comes to the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

import turnwise as tw
from turnwise.envs.web.browser import Wanted
from turnwise.envs.web.chromium.browser import open_browser, typing
from turnwise.envs.web.chromium.loop import LOOP
from turnwise.envs.web.chromium.tab import Tab
from turnwise.envs.web.env import WebEnv
from turnwise.envs.web.html.browser import HtmlBrowser
from turnwise.envs.web.page import Node, Page, as_text
from turnwise.errors import ToolError
from turnwise.tasks.spec import Split, TaskSpec
from turnwise.tasks.web.family import WEB_FAMILY, open_sites
from turnwise.tasks.web.simulators.accounts import account_of
from turnwise.tasks.web.simulators.catalogue import SITES
from turnwise.tasks.web.simulators.site import Site, routes
from turnwise.tasks.web.simulators.sites import Sites, host_of

from ....shifts import sampled

pytestmark = pytest.mark.slow
SAMPLED, BLOCK = 6, 10
"""How many tasks are solved in both browsers: in the core, and of each split in a shift."""
EACH = 2
"""Addresses of every kind of page that are looked at, in every theme."""
AMONG = 5
"""Episodes beside the two that must be equal."""


def facts(node: Node) -> Any:
    """All of an element but how its browser finds it again."""
    return (
        node.role, node.name, node.value, node.states, node.url, node.id, tuple(facts(child) for child in node.children)
    )  # fmt: skip


def same(page: Page, other: Page) -> None:
    """Two pages are equal, node for node."""
    assert as_text(page) == as_text(other)
    assert tuple(map(facts, page.nodes)) == tuple(map(facts, other.nodes)), page.url


def specs() -> list[TaskSpec]:
    """Tasks of different levels, so of different themes: a plain one and two others."""
    sampled = WEB_FAMILY.sample(40, first_seed=7)
    return [next(spec for spec in sampled if spec.level == level) for level in (1, 3, 5)]


def known(spec: TaskSpec) -> Sites:
    """The sites of a task, with the user logged in everywhere."""
    sites = open_sites(spec, WEB_FAMILY.generate(spec))
    for site in SITES:
        sites.enter(site.name, int(str(account_of(sites.db, site.name)["id"])))
    return sites


def crawled(browser: HtmlBrowser, site: type[Site]) -> Iterator[tuple[str, str]]:
    """Addresses that links of a site lead to, some for every kind of page, with the kind."""
    found: dict[str, int] = {}
    host = f"http://{host_of(site)}"
    todo, done = [f"{host}/"], set()
    while todo:
        url = todo.pop(0)
        path, _, query = url.removeprefix(host).partition("?")
        route = next(
            (one for one in routes(cast(Any, site)) if one.method == "GET" and one.pattern.fullmatch(path)), None
        )
        kind = f"{route.pattern.pattern if route else path}?{'page' in query}"
        if url in done or found.get(kind, 0) >= EACH:
            continue
        done.add(url)
        found[kind] = found.get(kind, 0) + 1
        yield url, kind
        browser.open(url)
        todo += [f"{host}{one.url}" for one in browser.seen().walk() if one.url.startswith("/")]


@pytest.mark.parametrize(
    ("spec", "site"),
    [
        pytest.param(
            spec,
            site,
            id=f"level{spec.level}-{site.name}",
            marks=() if number == 2 * place else pytest.mark.shift,
        )
        for place, spec in enumerate(specs())
        for number, site in enumerate(SITES)
    ],
)
async def test_every_page_is_the_same(spec: TaskSpec, site: type[Site]) -> None:
    sites, url = known(spec), f"http://{host_of(site)}/"
    plain, finder = HtmlBrowser(sites.fork(), url), HtmlBrowser(sites.fork(), url)
    browser = await open_browser(sites, url)
    kinds = set()
    for one, kind in crawled(finder, site):
        plain.open(one)
        await browser.goto(one)
        same(plain.seen(), await browser.look(Wanted()))
        kinds.add(kind)
    assert len(kinds) > 3, f"only {kinds} were looked at"
    await browser.close()


def both_solve(spec: TaskSpec, env: Any, other: Any) -> None:
    """Solve a task in two environments, which tell and count the same at every step."""
    first, second = env.reset(options={"task": spec})[0], other.reset(options={"task": spec})[0]
    over = False
    while not over:
        assert first.text == second.text, f"{spec}: another observation"
        same(env.unwrapped.page, other.unwrapped.page)
        first, *came, info = env.step(env.unwrapped.oracle())
        second, *other_came, other_info = other.step(other.unwrapped.oracle())
        assert came == other_came, f"{spec}: another reward"
        over = came[1] or came[2]
    assert came[0] == 1, f"{spec} is not solved"
    assert info["score"] == other_info["score"]


def test_a_sample_of_tasks_is_solved_alike() -> None:
    env, other = tw.make("turnwise/WebHTML-v1"), tw.make("turnwise/Web-v1")
    for spec in sampled(list(WEB_FAMILY.sample(24, first_seed=1000)), SAMPLED, key="parity"):
        both_solve(spec, env, other)


@pytest.mark.shift
@pytest.mark.parametrize("split", WEB_FAMILY.splits)
def test_many_tasks_are_solved_alike(split: Split) -> None:
    env, other = tw.make("turnwise/WebHTML-v1"), tw.make("turnwise/Web-v1")
    many = list(WEB_FAMILY.sample(50, split=split, first_seed=2000))
    for spec in sampled(many, BLOCK, key=f"parity {split}"):
        both_solve(spec, env, other)


async def transcript(seed: int) -> list[str]:
    """Return all observations of an episode that its oracle plays."""
    env = tw.make("turnwise/Web-v1").unwrapped
    assert isinstance(env, WebEnv)
    observation, _ = await env.areset(seed=seed, options={"level": 2})
    said, over = [observation.text], False
    while not over:
        observation, _, terminated, truncated, _ = await env.astep(env.oracle())
        said.append(observation.text)
        over = terminated or truncated
    await env.leave()
    return said


@pytest.mark.slow
@pytest.mark.shift
async def test_episodes_among_others_are_the_same() -> None:
    found = await asyncio.gather(*(transcript(seed) for seed in (5, *range(100, 100 + AMONG), 5)))
    assert found[0] == found[-1]
    assert len({tuple(one) for one in found}) > AMONG // 2


async def outcome(work: Any) -> str:
    """Return the refusal of an act; empty if it succeeds."""
    try:
        await work
    except ToolError as error:
        return str(error)
    return ""


async def test_what_is_rare_comes_to_the_same() -> None:
    """Keys that there are not, a middle click, a long text with a line break, and an address with escapes."""
    sites = known(specs()[0])
    site = next(one for one in SITES if one.name == "shop")
    url = f"http://{host_of(site)}/"
    browsers: tuple[Any, ...] = (HtmlBrowser(sites.fork(), url), await open_browser(sites.fork(), url))

    async def alike(act: str, *given: Any, **named: Any) -> str:
        outcomes = [await outcome(getattr(one, act)(*given, **named)) for one in browsers]
        assert outcomes[0] == outcomes[1], (act, given)
        seen = [await one.look(Wanted()) for one in browsers]
        same(*seen)
        assert seen[0].tabs == seen[1].tabs
        assert seen[0].front == seen[1].front
        return str(outcomes[0])

    for keys in ("Return", "enter", "nothing", "", "é", "Control+Return", "a+nothing"):
        assert "unknown key" in await alike("press", "", keys), keys
    for keys in ("Escape", "a", "+", "Control++", "KeyA", "F12", "NumpadEnter"):
        assert not await alike("press", "", keys), keys
    refs = [
        [one.ref for one in (await each.look(Wanted())).walk() if one.role == "link" and one.url] for each in browsers
    ]
    for each, links in zip(browsers, refs, strict=True):
        await each.click(links[0], button="middle")
    await alike("rest", 0)
    assert len((await browsers[1].look(Wanted())).tabs) == 2
    for path in ("%0d%0a", "a%2fb", "no%20page", "%7Eperson"):
        await alike("goto", url + path)
    await alike("goto", url)
    for each in browsers:
        [field] = [one for one in (await each.look(Wanted())).walk() if one.role in ("textbox", "searchbox")][:1]
        await each.focus(field.ref)
    await alike("type", "lamp " * 60 + "\n")
    assert (await browsers[0].look(Wanted())).url != url, "the line break sent the form"
    await alike("goto", url)
    for each in browsers:
        [field] = [one for one in (await each.look(Wanted())).walk() if one.role in ("textbox", "searchbox")][:1]
        await each.focus(field.ref)
    await alike("type", "lamp " * 60 + "\nmore\n\nwords")
    assert (await browsers[0].look(Wanted())).url != url, "the rest was typed where the line break led"
    await browsers[1].close()


async def test_long_text_goes_on_only_where_the_tab_is_at_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a line break sends a form, and the request is only seen after the first look at the tab."""
    sites = known(specs()[0])
    url = f"http://{host_of(next(one for one in SITES if one.name == 'shop'))}/"
    browser: Any = await open_browser(sites.fork(), url)
    looks, rested = 0, Tab.rested

    async def restless(tab: Tab) -> bool:
        nonlocal looks
        looks += 1
        return False if looks % 2 else await rested(tab)

    seen: list[str] = []

    class Keyboard:
        async def press(self, key: str) -> None:
            seen.append(f"{key} after {looks}")

        async def insert_text(self, text: str) -> None:
            seen.append(f"{text[:4]} after {looks}")

    monkeypatch.setattr(Tab, "rested", restless)
    page = cast("Any", SimpleNamespace(keyboard=Keyboard()))
    await LOOP.run(typing(page, "lamp " * 60 + "\nmore", browser.window.settle))
    assert seen == ["lamp after 0", "Enter after 0", "more after 2"]
    await browser.close()


async def test_text_for_a_page_that_was_replaced_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chromium answers no insertion into a page that goes away, which ended steps at their time limit."""
    keys: list[str] = []

    class Keyboard:
        async def press(self, key: str) -> None:
            keys.append(key)

        async def insert_text(self, text: str) -> None:
            keys.append(text)
            if text == "lost":
                await asyncio.Event().wait()

    monkeypatch.setattr("turnwise.envs.web.chromium.browser.PATIENCE", 10)
    long = "lamp " * 60
    page = cast("Any", SimpleNamespace(keyboard=Keyboard()))
    await typing(page, f"{long}\n\nkept")
    assert keys == [long, "Enter", "Enter", "kept"]
    with pytest.raises(ToolError, match="the rest of the text was not typed"):  # and not 200 times in a row
        await typing(page, f"{long}\nlost\nnever")
    assert keys[-1] == "lost"
