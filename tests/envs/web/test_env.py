"""Episodes on web sites, pages read without a browser: whatever an agent does is answered, and only rows count."""

from __future__ import annotations

from typing import Any

import pytest

import turnwise as tw
from turnwise import Action, ToolCall
from turnwise.envs.contract import Contract
from turnwise.envs.messages import ActionLike
from turnwise.envs.web.env import WebEnv
from turnwise.envs.web.near_misses import WAYS_OUT
from turnwise.errors import UsageError
from turnwise.tasks.web.templates.catalogue import BASE, TEMPLATES

ID = "turnwise/WebHTML-v1"


def started(level: int = 1, seed: int = 3, template: str = "shop_order", id: str = ID, **kwargs: Any) -> WebEnv:
    env = tw.make(id, templates=[template], **kwargs).unwrapped
    assert isinstance(env, WebEnv)
    env.reset(seed=seed, options={"level": level})
    return env


def solved(env: WebEnv, limit: int = 100) -> bool:
    for _ in range(limit):
        _, _, terminated, truncated, info = env.step(env.oracle())
        if terminated or truncated:
            return bool(info["success"])
    return False


@pytest.mark.parametrize("level", [1, 2, 3, 4, 5])
def test_the_solution_solves_a_task_at_every_level(level: int) -> None:
    assert solved(started(level))


def test_the_first_observation_says_who_where_and_what() -> None:
    env = started(3)
    observation, _ = env.reset(seed=3, options={"level": 3})
    assert env.work is not None
    for part in (
        "You work for",
        "http://shop.test/",
        "Your account: ",
        "password ",
        env.work.prompt,
        "URL: http://shop.test/",
    ):
        assert part in observation.text
    brief, _ = tw.make(ID, templates=["shop_order"], brief=True).reset(seed=3, options={"level": 3})
    assert brief.text.startswith(env.work.prompt)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (ToolCall("click", {"id": "999"}), "there is no element '999'"),
        (ToolCall("click", {"id": ""}), "there is no element"),
        (ToolCall("click", {}), "id"),
        (ToolCall("click", {"id": {"a": 1}}), "id"),
        (ToolCall("fly", {}), "there is no tool 'fly'"),
        (ToolCall("fill", {"id": "1", "value": "x"}), "does not accept text"),
        (ToolCall("fill", {"id": "1", "value": "x" * 30_000}), "value"),
        (ToolCall("select_option", {"id": "1", "options": "x"}), "not a list"),
        (ToolCall("check", {"id": "1"}), "not a checkbox"),
        (ToolCall("tab_focus", {"index": 7}), "no tab 7"),
        (ToolCall("tab_close"), "the last tab"),
        (ToolCall("go_forward"), "no page to go forward"),
        (ToolCall("mouse_click", {"x": 1, "y": 1}), "does not render pages"),
        (ToolCall("goto", {"url": "javascript:alert(1)"}), "URLs must begin with http"),
        (ToolCall("goto", {"url": "file:///etc/passwd"}), "URLs must begin with http"),
        (ToolCall("goto", {"url": "data:text/html,x"}), "URLs must begin with http"),
        (ToolCall("goto", {"url": "http://elsewhere.test/"}), "not one of the sites"),
        (ToolCall("goto", {"url": "http://shop.test@elsewhere.test/"}), "not one of the sites"),
        (ToolCall("goto", {"url": "http://shop.test:8080/"}), "not one of the sites"),
        (ToolCall("goto", {"url": "http://127.0.0.1/"}), "not one of the sites"),
        (ToolCall("goto", {"url": "shop"}), "URLs must begin with http"),
        ("I think the cart is next.", "cannot be read as actions"),
        ("", "Call a tool"),
    ],
)
def test_what_cannot_be_done_is_answered_and_changes_nothing(act: ActionLike, says: str) -> None:
    env = started()
    before = env.page.text
    observation, reward, terminated, _, _ = env.step(act)
    assert says in observation.text
    assert (reward, terminated, env.sites.changes(), env.page.text) == (0.0, False, (), before)


@pytest.mark.parametrize("url", ["", "/", "shop.test", "http://shop.test/products?q=a b", "about:blank#"])
def test_what_is_no_address_is_refused_and_costs_nothing_else(url: str) -> None:
    env = started()
    observation, *_ = env.step(ToolCall("goto", {"url": url}))
    assert "Error" in observation.text
    assert solved(env)


def test_calls_that_are_not_run_are_not_remembered() -> None:
    env = started()
    env.step(Action("", tuple(ToolCall("noop") for _ in range(1000))))
    assert len(env._did) == env.max_calls


@pytest.mark.parametrize("text", ["\ufffe", "\uffff\x85", "x" * 20_000])
@pytest.mark.parametrize("id", [ID, pytest.param("turnwise/Web-v1", marks=pytest.mark.slow)])
def test_nothing_that_is_typed_ends_an_episode(id: str, text: str) -> None:
    env = started(id=id)
    env.step(ToolCall("click", {"id": env.page.find("searchbox")[0].id}))
    for _ in range(3):
        _, _, terminated, _, _ = env.step(ToolCall("keyboard_type", {"text": text}))
        assert not terminated


@pytest.mark.parametrize("id", [ID, pytest.param("turnwise/Web-v1", marks=pytest.mark.slow)])
def test_a_login_may_lead_to_a_page_of_any_name(id: str) -> None:
    env = started(3, 11, id=id)
    env.step(ToolCall("goto", {"url": "http://shop.test/login?back=/\u65e5\u672c"}))
    name, password = env._accounts()["shop"]
    env.step(ToolCall("fill", {"id": env.page.find("textbox")[0].id, "value": name}))
    env.step(ToolCall("fill", {"id": env.page.find("textbox")[1].id, "value": password}))
    button = [one for one in env.page.find("button") if one.name != "Search"][-1]
    observation, *_ = env.step(ToolCall("click", {"id": button.id}))
    assert "does not exist" in observation.text


@pytest.mark.parametrize("template", ["shop_cancel_sent", "tracker_closed_milestone", "cms_publish", "wiki_protected"])
def test_a_refusal_that_lists_what_the_fact_might_be_is_none(template: str) -> None:
    statuses = "pending paid placed packed shipped sent delivered cancelled returned"
    days = " ".join(f"2025-{month:02}-{day:02}" for month in range(1, 13) for day in range(1, 29))
    for seed in range(8):
        env = started(1, seed, template)
        names = " ".join(str(row["name"]) for row in env.sites.db.rows("SELECT name FROM accounts"))
        for said in (statuses, days, names, f"{statuses} {days} {names}"):
            twin = env.fork()
            *_, info = twin.step(ToolCall("report_infeasible", {"reason": said}))
            assert not info["success"], said[:80]


@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize("id", [ID, pytest.param("turnwise/Web-v1", marks=pytest.mark.slow)])
def test_whoever_tries_to_leave_does_not_succeed_and_it_is_reported(id: str, way: str) -> None:
    env = started(id=id)
    cheat: Any = env.near_misses()[f"a way out to {way}"]
    info: dict[str, Any] = {}
    while "score" not in info:
        _, reward, *_, info = env.step(cheat(env))
    assert (reward, info["success"]) == (0.0, False)
    [violation] = info["score"].violations
    assert violation.startswith("left the sites")
    assert WAYS_OUT[way][:20] in violation


def test_a_page_that_does_not_exist_is_a_page() -> None:
    observation, *_ = started().step("goto('http://shop.test/judge')")
    assert "does not exist" in observation.text


def test_text_and_calls_do_the_same() -> None:
    by_text, by_calls = started(), started()
    first, *_ = by_text.step("click('3')")
    second, *_ = by_calls.step(ToolCall("click", {"id": "3"}))
    assert first.text == second.text
    assert by_text.state_key() == by_calls.state_key()


def test_tabs_and_history() -> None:
    env = started()
    env.step("click('3')")
    cart = env.page.url
    env.step("new_tab()")
    assert env.page.url == "about:blank"
    env.step("goto('http://shop.test/orders')")
    env.step("tab_focus(0)")
    assert env.page.url == cart
    env.step("go_back()")
    assert env.page.url == "http://shop.test/"
    env.step("go_forward()")
    assert env.page.url == cart
    env.step("tab_focus(1)")
    env.step("tab_close()")
    assert (env.page.url, len(env.page.tabs)) == (cart, 1)


def test_a_fork_goes_its_own_way() -> None:
    env = started(3)
    for _ in range(6):
        env.step(env.oracle())
    twin = env.fork()
    assert twin.state_key() == env.state_key()
    assert solved(twin)
    assert not env.sites.changes() or env.state_key() != twin.state_key()
    assert solved(env), "what the twin did is not done here"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_pages_while_others_play() -> None:
    alone = trace([started(4, 11)])[0]
    crowd = [started(4, 11), *(started(1 + number % 5, number) for number in range(12)), started(4, 11)]
    among = trace(crowd)
    assert among[0] == among[-1] == alone


def trace(envs: list[WebEnv]) -> list[list[str]]:
    """Return the observations of each while all act in turn."""
    seen: list[list[str]] = [[env.page.text] for env in envs]
    for _ in range(12):
        for env, pages in zip(envs, seen, strict=True):
            if not env._over:
                pages.append(env.step(env.oracle())[0].text)
    return seen


def test_a_long_page_is_cut_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WebEnv, "contract", Contract(max_observation_chars=400))
    observation, *_ = started().step("click('2')")
    assert len(observation.text) <= 400
    assert "left out" in observation.text


@pytest.mark.parametrize(
    "kwargs",
    [
        {"browser": "lynx"},
        {"observation": "pixels"},
        {"screenshot": True},
        {"templates": ["shop_nothing"]},
        {"templates": "shop_order"},
        {"templates": []},
    ],
)
def test_settings_that_cannot_be_are_refused(kwargs: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        tw.make(ID, **kwargs).reset(seed=0)


def test_compositions_are_held_out_and_hold_both_parts() -> None:
    composed = [one for one in TEMPLATES.values() if one.kind == "composed"]
    assert all(one.held_out for one in composed)
    assert all(set(one.name.split("_then_")) <= set(BASE) for one in composed)


def test_tabs_and_addresses_have_a_bound() -> None:
    env = started()
    for _ in range(25):
        observation, *_ = env.step(ToolCall("new_tab", {}))
    assert "there are already 20 tabs" in observation.text
    observation, *_ = env.step(ToolCall("goto", {"url": "http://shop.test/search?q=" + "x" * 20_000}))
    assert len(observation.text) < 10_000
