"""Walk a maze to its goal, with the positions of walker and goal (fully observed) or only the surroundings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, get_args

from ...errors import UsageError
from ...tasks.family import TaskFamily
from ...tasks.games.maze import (
    DOUBLE_T_MAZE,
    LARGE_MAZE,
    MAZES,
    MEDIUM_MAZE,
    U_SHAPED_MAZE,
    Maze,
    step,
    toward,
)
from ...tasks.games.maze_layouts import MOVES, Cell
from ...tasks.rng import Rng
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, ObservationLike, clip, message
from ..step import Step, running, success
from .paced import PacedEnv

RULES = "Find the way to the goal. Each turn answer one of: move up, move down, move left, move right."
INVALID_REWARD = -4.0
Rewards = Literal["steps", "success"]
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}


class MazeEnv(PacedEnv[Maze]):
    """Find the goal of a maze: rewards −1 per turn, −4 for text that is not a move, and 0 for reaching the goal.

    Every observation after the rules is a state on its own (Markov): position, goal, the offset between them, the open
    directions, and the direction that the walker came from.
    """

    family: TaskFamily[Maze] | None = MAZES
    blocking = False
    max_turns = 210
    """Turn limit of the longest task; each task has its own."""
    unparsed_reward = INVALID_REWARD
    contract = Contract(max_observation_chars=1000)
    published: ClassVar[bool] = False
    """Whether this is LMRL-Gym's own maze: observations reveal no more than there, and random play walks into walls."""

    maze: Maze
    cell: Cell
    came: str

    def __init__(self, *, rewards: Rewards = "steps", **kwargs: Any) -> None:
        """``rewards="steps"`` pays the published rewards; ``"success"`` pays 1 at the goal and 0 before."""
        if rewards not in get_args(Rewards):
            raise UsageError(f"rewards {rewards!r} is unknown; choose one of {', '.join(get_args(Rewards))}")
        super().__init__(**kwargs)
        self.sparse = rewards == "success"
        if self.sparse:
            self.unparsed_reward = 0.0

    def start(self, task: Maze, rng: Rng) -> ObservationLike:
        self.maze = task
        self.cell, self.came = self.maze.start, ""
        self.pace(self.maze.turns)
        return [message("system", RULES), message("user", self.look())]

    def act(self, action: Action) -> Step:
        move = " ".join(action.text.lower().split()).removeprefix("move ").removesuffix(".")
        if move not in MOVES:
            # Repeat the state, since some agents read only the last observation.
            text = f"That is no move: {clip(action.text)!r}. Answer with move {', move '.join(MOVES)}. {self.look()}"
            return running(text, self.unparsed_reward, unparsed=True)
        if move in self.maze.open(self.cell):
            self.cell, self.came = step(self.cell, move), OPPOSITE[move]
        if self.cell == self.maze.goal:
            return success("You reached the goal.", reward=1.0 if self.sparse else 0.0)
        return running(self.look(), reward=0.0 if self.sparse else -1.0)

    def look(self) -> str:
        """Describe the walker's surroundings."""
        row, column = self.cell
        goal_row, goal_column = self.maze.goal
        offset = ", ".join(f"{move} {far}" for move, far in toward(self.cell, self.maze.goal).items())
        # Without the direction that it came from, a walker that reads only this text paces between two cells forever.
        came = f" You came from {self.came}." if self.came and not self.published else ""
        return f"You are at {row}, {column}. The goal is at {goal_row}, {goal_column}: {offset}. {self.ways()}{came}"

    def ways(self) -> str:
        """List the directions without a wall."""
        return f"Open: {', '.join(self.maze.open(self.cell))}."

    def oracle(self) -> str:
        """Return the next move on a shortest path."""
        return f"move {self.maze.best(self.cell)}"

    def random_action(self, rng: Rng) -> str:
        """Return a random open direction; in LMRL-Gym's mazes, any of the four directions."""
        return f"move {rng.pick(list(MOVES) if self.published else self.maze.open(self.cell))}"

    def state_key(self) -> str:
        """Return the position as a key: nothing else changes within one task."""
        return f"{self.cell[0]},{self.cell[1]}"

    def best_return(self) -> float:
        """Return −1 for every turn of a shortest path except the last; with sparse rewards, 1."""
        return 1.0 if self.sparse else 1.0 - self.maze.optimum

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: a path that stops short of the goal, and claims to be there."""
        cell, way = self.maze.start, list[str]()
        while self.maze.distance[cell] > 1:
            way.append(f"move {self.maze.best(cell)}")
            cell = step(cell, self.maze.best(cell))
        return {
            "stops one move short of the goal": way,
            "claims to have arrived": ["You reached the goal.", "goal", f"move to {self.maze.goal}", "success"],
        }

    def render(self) -> str:
        """Render the maze from above: ``@`` is the walker, ``G`` the goal."""
        marks = {self.maze.goal: "G", self.cell: "@"}
        rows = (
            "".join(marks.get((r, c), mark) for c, mark in enumerate(row)) for r, row in enumerate(self.maze.layout)
        )
        return "\n".join([super().render(), *rows])


class MazeBlindEnv(MazeEnv):
    """The mazes of ``Maze-v0``, partially observed: only the open directions are seen, and no position."""

    def look(self) -> str:
        """The directions without a wall, and nothing else."""
        return self.ways()


class MazeFO(MazeEnv):
    """LMRL-Gym's Maze, fully observed: ``double_t``, 25 starts, mean optimal return −6.84."""

    family = DOUBLE_T_MAZE
    max_turns = 100
    published = True
    # A hundred random turns cross a maze of 26 cells from the nearer starts.
    contract = replace(MazeEnv.contract, random_floor=0.5)


class MazePO(MazeBlindEnv):
    """LMRL-Gym's Maze, partially observed: ``double_t``, walls only."""

    family = DOUBLE_T_MAZE
    max_turns = 100
    published = True
    contract = replace(MazeEnv.contract, random_floor=0.5)


class MazeU(MazeEnv):
    """LMRL-Gym's ``maze2d_umaze``: 7 cells, so that luck finds the goal too."""

    family = U_SHAPED_MAZE
    max_turns = 100
    published = True
    contract = replace(MazeEnv.contract, random_floor=1.0)


class MazeMedium(MazeEnv):
    """LMRL-Gym's ``maze2d_medium``."""

    family = MEDIUM_MAZE
    max_turns = 100
    published = True
    contract = replace(MazeEnv.contract, random_floor=0.7)


class MazeLarge(MazeEnv):
    """LMRL-Gym's ``maze2d_large``."""

    family = LARGE_MAZE
    max_turns = 100
    published = True
    contract = replace(MazeEnv.contract, random_floor=0.5)
