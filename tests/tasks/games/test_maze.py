"""Mazes: shortest ways, levels as measured, and layouts that are held out from whatever side one looks at them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnwise import Rng, Split, TaskSpec
from turnwise.errors import TaskError
from turnwise.tasks.games import maze as mazes
from turnwise.tasks.games import maze_layouts as layouts
from turnwise.tasks.games.maze import DOUBLE_T_MAZE, LEVELS, MAZES, Maze

specs = st.builds(
    lambda seed, level, split, pick: MAZES.spec(
        seed, split=split, level=level, template=MAZES.templates(split)[pick % len(MAZES.templates(split))]
    ),
    st.integers(0, 10**9),
    st.sampled_from([1, 2, 3]),
    st.sampled_from(MAZES.splits),
    st.integers(0, 100),
)


def turned(layout: layouts.Layout) -> layouts.Layout:
    return tuple("".join(row[c] for row in reversed(layout)) for c in range(len(layout[0])))


@pytest.mark.slow
@given(specs)
def test_a_maze_keeps_what_its_level_promises(spec: TaskSpec) -> None:
    maze, level = MAZES.generate(spec), LEVELS[spec.level]
    assert level.least <= maze.optimum <= level.most, "the fewest turns lie in the level's range"
    assert maze.turns >= maze.optimum, "the limit leaves the oracle enough turns"
    assert maze == MAZES.generate(spec), "a spec names one maze"
    assert not level.reactive or mazes.arrives(maze), "level 1 needs no memory"
    border = {maze.layout[0], maze.layout[-1], *("".join((row[0], row[-1])) for row in maze.layout)}
    assert set("".join(border)) == {"#"}, "nobody can leave"
    assert len(layouts.free_cells(maze.layout)) == len(maze.distance), "every free cell can reach the goal"


@given(specs)
def test_the_best_move_shortens_the_way_by_one(spec: TaskSpec) -> None:
    maze = MAZES.generate(spec)
    for cell in maze.distance:
        if cell != maze.goal:
            ahead = mazes.step(cell, maze.best(cell))
            assert maze.distance[ahead] == maze.distance[cell] - 1
        near = [maze.distance[mazes.step(cell, move)] for move in maze.open(cell)]
        assert all(abs(far - maze.distance[cell]) == 1 for far in near), "neighbours differ by one on a grid"


@given(specs)
def test_a_layout_has_one_split_from_every_side(spec: TaskSpec) -> None:
    layout = MAZES.generate(spec).layout
    held = spec.split if spec.split in (Split.TRAIN, Split.DEV) else Split.TEST_IID
    for _ in range(4):
        for form in (layout, tuple(row[::-1] for row in layout)):
            assert layouts.bucket(form) is held, "no rotation or mirror image of a held-out maze is in train"
        layout = turned(layout)


@pytest.mark.slow
def test_no_test_layout_is_in_train() -> None:
    seen = {split: {layouts.canonical(m.layout) for m in drawn(split, 150)} for split in MAZES.splits}
    for split in MAZES.splits:
        if split is not Split.TRAIN:
            assert not seen[split] & seen[Split.TRAIN], f"{split} shares a layout with train"
    assert not seen[Split.DEV] & seen[Split.TEST_IID], "what choices are made on is not what is reported"


def drawn(split: Split, n: int) -> list[Maze]:
    return [MAZES.generate(spec) for spec in MAZES.sample(n, split=split, level=1)]


def test_held_out_templates_are_in_no_other_split() -> None:
    train = set(MAZES.templates(Split.TRAIN))
    assert not train & set(MAZES.templates(Split.TEST_TEMPLATE))
    assert not train & set(MAZES.templates(Split.CHALLENGE))
    assert not set(MAZES.templates(Split.TEST_TEMPLATE)) & set(MAZES.templates(Split.CHALLENGE))


@given(st.sampled_from(sorted(layouts.TEMPLATES)), st.sampled_from([5, 7, 9, 13]), st.integers(0, 10**6))
def test_every_template_draws_connected_layouts(template: str, size: int, seed: int) -> None:
    layout = layouts.draw(template, size, Rng("layout", seed))
    free = layouts.free_cells(layout)
    assert len(layout) == size + 2
    assert {len(row) for row in layout} == {size + 2}
    assert len(free) >= 2
    assert set(mazes.distances(layout, free[0])) == set(free)


@given(st.integers(0, 10**6), st.sampled_from([5, 7, 9, 13]))
def test_a_tree_has_one_way_and_a_braid_no_dead_end(seed: int, size: int) -> None:
    def ways(layout: layouts.Layout) -> list[int]:
        free = set(layouts.free_cells(layout))
        return [sum(mazes.step(cell, move) in free for move in layouts.MOVES) for cell in free]

    tree = ways(layouts.draw("tree", size, Rng("tree", seed)))
    assert sum(tree) // 2 == len(tree) - 1, "a tree has one edge fewer than cells"
    assert min(ways(layouts.draw("braid", size, Rng("tree", seed)))) >= 2


def test_double_t_is_the_published_maze() -> None:
    assert len(layouts.free_cells(layouts.DOUBLE_T)) == 26
    assert DOUBLE_T_MAZE.seeds == 25
    ways = [DOUBLE_T_MAZE.generate(DOUBLE_T_MAZE.spec(seed)) for seed in range(25)]
    assert len({maze.start for maze in ways}) == 25, "the seeds are the starts"
    assert sum(1 - maze.optimum for maze in ways) / 25 == -6.84, "LMRL-Gym's published maximum"
    with pytest.raises(TaskError, match="seeds 0 to 24"):
        DOUBLE_T_MAZE.generate(TaskSpec("maze-double-t", seed=25))


def test_the_reactive_walker_sidesteps_what_stands_in_its_way() -> None:
    assert mazes.reactive_move((3, 3), (3, 6), ("up", "down", "left", "right")) == "right"
    assert mazes.reactive_move((3, 3), (3, 6), ("left", "down")) == "down", "blocked, it does not turn back"
    assert mazes.reactive_move((3, 3), (1, 6), ("up", "left")) == "up", "blocked, it closes the shorter offset"
    assert mazes.reactive_move((3, 3), (3, 6), ("left",)) == "left", "a dead end has one way out"
