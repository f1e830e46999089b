"""Text-Nav: the published house, plans that are shortest, and words and houses that are held out."""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnwise import Rng, Split, TaskSpec
from turnwise.tasks.games import house as houses
from turnwise.tasks.games import text_nav
from turnwise.tasks.games.house import CARRIED, House, State, moves, plan
from turnwise.tasks.games.text_nav import FIXED_HOUSE, LEVELS, TEXT_NAV

specs = st.builds(
    lambda seed, level, split: TEXT_NAV.spec(seed, split=split, level=level),
    st.integers(0, 10**9),
    st.sampled_from([1, 2, 3, 4]),
    st.sampled_from(TEXT_NAV.splits),
)


def fewest(house: House, state: State) -> int | None:
    """Turns to a solved state by breadth-first search over every command: slow, and without a doubt."""
    depth, queue = {state: 0}, deque([state])
    while queue:
        here = queue.popleft()
        if house.solved(here):
            return depth[here]
        for _, there in moves(house, here):
            if there not in depth:
                depth[there] = depth[here] + 1
                queue.append(there)
    return None


@pytest.mark.slow
@given(specs)
def test_a_house_keeps_what_its_level_promises(spec: TaskSpec) -> None:
    house, level = TEXT_NAV.generate(spec), LEVELS[spec.level]
    way = plan(house, house.begin)
    assert way is not None
    assert level.least <= len(way) <= level.most, "the planner's turns lie in the level's range"
    assert len(way) <= house.turns, "the limit leaves the oracle enough turns"
    assert house == TEXT_NAV.generate(spec), "a spec names one house"
    assert len(house.doors) == level.doors
    assert len(house.stow) == level.stow
    assert not house.solved(house.begin)


@given(specs)
def test_a_plan_is_carried_out_as_planned(spec: TaskSpec) -> None:
    house = TEXT_NAV.generate(spec)
    state = house.begin
    for command in plan(house, state) or ():
        assert not house.solved(state), "a shortest plan does not go on after the end"
        state = dict(moves(house, state))[command]
    assert house.solved(state)


@given(st.integers(0, 10**6), st.sampled_from(TEXT_NAV.templates(Split.TRAIN)), st.sampled_from([1, 2, 3]))
@settings(max_examples=15)
def test_plans_are_shortest_also_after_mistakes(seed: int, template: str, level: int) -> None:
    house = without_decoys(TEXT_NAV.generate(TEXT_NAV.spec(seed, level=level, template=template)))
    state, rng = house.begin, Rng("mistakes", seed)
    for _ in range(seed % 6):
        state = rng.pick([there for _, there in moves(house, state) if not house.lost(there)])
    way = plan(house, state)
    assert way is not None, "nothing but eating makes a task unsolvable"
    assert len(way) == fewest(house, state)


def without_decoys(house: House) -> House:
    """The same house with few things in it, so that a search of everything ends soon."""
    kept = max(1, len(house.stow))
    return replace(house, things=house.things[:kept], places=house.places[:kept])


def test_what_was_eaten_cannot_be_stowed() -> None:
    house = FIXED_HOUSE.generate(FIXED_HOUSE.spec(3))
    carrying = dict(moves(house, house.begin))["take stale food from table"]
    eaten = dict(moves(house, carrying))["eat stale food"]
    assert house.lost(eaten)
    assert plan(house, eaten) is None
    assert not house.lost(dict(moves(house, carrying))["drop stale food"])


def test_the_published_house() -> None:
    house = FIXED_HOUSE.generate(FIXED_HOUSE.spec(3))
    assert house.rooms[house.start] == "living room"
    assert plan(house, house.begin) == (
        "take stale food from table",
        "go west",
        "go west",
        "open fridge",
        "insert stale food into fridge",
        "close fridge",
    ), "LMRL-Gym's own walkthrough from the living room"
    lengths = [len(plan(h, h.begin) or ()) for h in (FIXED_HOUSE.generate(FIXED_HOUSE.spec(s)) for s in range(8))]
    assert sum(lengths) / 8 == 7.625
    assert max(lengths) <= house.turns == 15
    for room, ways in enumerate(house.exits):
        for direction, there in ways:
            row, column = houses.DIRECTIONS[direction]
            back = next(name for name, step in houses.DIRECTIONS.items() if step == (-row, -column))
            assert (back, room) in house.exits[there], "every way leads back by the opposite direction"


def test_things_in_a_closed_container_are_out_of_reach() -> None:
    house = FIXED_HOUSE.generate(FIXED_HOUSE.spec(4))  # the kitchen
    commands = dict(moves(house, house.begin))
    assert "take fruit from fridge" not in commands
    opened = dict(moves(house, commands["open fridge"]))
    assert opened["take fruit from fridge"].places[6] == CARRIED
    assert "open fridge" not in opened


def test_a_closed_door_bars_the_way_until_it_is_opened() -> None:
    spec = next(
        spec
        for spec in TEXT_NAV.sample(200, level=3)
        if any(TEXT_NAV.generate(spec).start in pair for pair in TEXT_NAV.generate(spec).doors)
    )
    house = TEXT_NAV.generate(spec)
    before = dict(moves(house, house.begin))
    command = next(command for command in before if command.endswith("door"))
    direction = command.split()[1]
    assert f"go {direction}" not in before
    after = dict(moves(house, before[command]))
    assert f"go {direction}" in after
    assert f"close {direction} door" in after


@pytest.mark.slow
@pytest.mark.parametrize("level", list(LEVELS))
def test_held_out_words_and_houses_are_in_no_other_split(level: int) -> None:
    drawn = {
        split: [TEXT_NAV.generate(spec) for spec in TEXT_NAV.sample(12, split=split, level=level)]
        for split in TEXT_NAV.splits
    }

    def words(split: Split) -> set[str]:
        return {
            name
            for house in drawn[split]
            for name in (
                *house.rooms,
                *(item.name for item in house.furniture),
                *(thing.name for thing in house.things),
            )
        }

    seen = words(Split.TRAIN) | words(Split.DEV) | words(Split.TEST_IID) | words(Split.TEST_TEMPLATE)
    assert not seen & (words(Split.TEST_ENTITY) | words(Split.CHALLENGE)), "unseen words are unseen"
    for split in TEXT_NAV.splits:
        held = split if split in (Split.TRAIN, Split.DEV) else Split.TEST_IID
        assert {text_nav.bucket(house) for house in drawn[split]} == {held}, "a house belongs to one split"


def test_no_word_is_both_seen_and_unseen() -> None:
    def every(words: text_nav.Words) -> list[str]:
        return [*words.rooms, *words.containers, *words.surfaces, *words.food, *words.objects]

    seen, unseen = every(text_nav.SEEN), every(text_nav.UNSEEN)
    assert not set(seen) & set(unseen)
    assert len(set(seen + unseen)) == len(seen + unseen), "a name means one thing"


@given(st.sampled_from(sorted(text_nav.JOIN)), st.sampled_from([6, 8, 10]), st.integers(0, 10**6))
def test_every_template_joins_all_rooms_on_a_plan(template: str, rooms: int, seed: int) -> None:
    cells, pairs = text_nav.JOIN[template](rooms, Rng("join", seed))
    assert len(set(cells)) == len(cells) == rooms, "no two rooms in one place"
    reached, queue = {0}, [0]
    while queue:
        here = queue.pop()
        new = {b for a, b in (*pairs, *((b, a) for a, b in pairs)) if a == here} - reached
        reached |= new
        queue.extend(new)
    assert len(reached) == rooms
    for one, other in pairs:
        offset = (cells[other][0] - cells[one][0], cells[other][1] - cells[one][1])
        assert offset in houses.DIRECTIONS.values(), "joined rooms are neighbours"
