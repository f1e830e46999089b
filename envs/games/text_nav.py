"""Walk through a house and bring things to their places, by text commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ...errors import ContractError
from ...tasks.family import TaskFamily
from ...tasks.games.house import CARRIED, DIRECTIONS, FLOOR, House, State, moves, plan
from ...tasks.games.text_nav import FIXED_HOUSE, TEXT_NAV
from ...tasks.rng import Rng
from ...tasks.score import Score
from ..base import NearMiss
from ..contract import Contract
from ..messages import Action, ObservationLike, clip, message
from ..step import Step, failure, running, termination
from .paced import PacedEnv

RULES = "Answer each turn with one command."
VERBS = {"walk": "go", "move": "go", "head": "go", "get": "take", "grab": "take", "place": "put", "shut": "close"}
"""Synonyms of the commands' verbs."""


class TextNavEnv(PacedEnv[House]):
    """Do chores in a house of text: the score is 1 when all is done and 0 until then; eating a needed thing loses.

    Every observation describes the whole state and the commands that are possible now; exits name the rooms they lead
    to.
    """

    family: TaskFamily[House] | None = TEXT_NAV
    blocking = False
    max_turns = 84
    """Turn limit of the longest task; each task has its own."""
    contract = Contract(max_observation_chars=3000)
    names_room: ClassVar[bool] = True
    """Whether the observation names the agent's room."""
    names_exits: ClassVar[bool] = True
    """Whether exits name the rooms that they lead to."""

    house: House
    state: State

    def start(self, task: House, rng: Rng) -> ObservationLike:
        self.house = task
        self.state = self.house.begin
        self.pace(self.house.turns)
        return [message("system", f"{self.house.objective} {RULES}"), message("user", self.look())]

    def act(self, action: Action) -> Step:
        possible = dict(moves(self.house, self.state))
        command = read(action.text, tuple(possible))
        if command not in possible:
            return running(f"{self._refusal(command)} {self.look()}", **({} if command in LOOKS else {"refused": True}))
        self.state = possible[command]
        if self.house.lost(self.state):
            return failure("You ate what was needed. It is lost.")
        if self.house.solved(self.state):
            return termination("Done. Everything is as it should be.", 1.0, self.judge())
        return running(self.look())

    def judge(self) -> Score:
        """Score one check per thing to stow, and one for the room to reach."""
        house, checks = self.house, dict[str, bool]()
        for thing, at in house.stow:
            closed = not (house.furniture[at].container and self.state.opened >> at & 1)
            there = self.state.places[thing] == at
            checks[f"{house.things[thing].name} is at the {house.furniture[at].name}"] = there
            if house.furniture[at].container:
                checks[f"{house.things[thing].name} is closed in"] = there and closed
        if house.reach is not None:
            checks[f"in the {house.rooms[house.reach]}"] = self.state.room == house.reach
        return Score(house.solved(self.state), checks)

    def look(self) -> str:
        """Describe the room, its contents, the exits, the things carried, and the possible commands."""
        house, state = self.house, self.state
        parts = [f"You are in the {house.rooms[state.room]}."] if self.names_room else []
        for at, item in enumerate(house.furniture):
            if item.room == state.room:
                parts.append(f"There is {self._furniture(at)}.")
        if floor := self._things(FLOOR - state.room):
            parts.append(f"On the floor: {floor}.")
        parts.append(
            f"Exits: {', '.join(self._exit(direction, there) for direction, there in house.exits[state.room])}."
        )
        if carried := self._things(CARRIED):
            parts.append(f"You carry: {carried}.")
        parts.append(f"You can: {', '.join(command for command, _ in moves(house, state))}.")
        return " ".join(parts)

    def oracle(self) -> str:
        """Return the first command of a shortest plan from the current state."""
        way = plan(self.house, self.state)
        if not way:
            raise ContractError(f"there is no plan from {self.state}: the task cannot be solved any more")
        return way[0]

    def random_action(self, rng: Rng) -> str:
        """Return a possible command, all equally likely; random play may use them, since the observation lists them."""
        return rng.pick([command for command, _ in moves(self.house, self.state)])

    def state_key(self) -> str:
        """Return a key for the room, the place of each thing, and what is open."""
        return f"{self.state.room}|{','.join(map(str, self.state.places))}|{self.state.opened}"

    def best_return(self) -> float:
        """Return the best return: 1 for a finished task."""
        return 1.0

    def near_misses(self) -> Mapping[str, NearMiss]:
        """Return near misses: a plan without its last step, claims, and eating a thing that has to be stowed."""
        way = plan(self.house, self.house.begin) or ()
        found: dict[str, NearMiss] = {
            "stops one step short": way[:-1],
            "claims to be done": ["done", "The task is complete.", self.house.objective],
        }
        eaten = [self.house.things[thing].name for thing, _ in self.house.stow if self.house.things[thing].food]
        if eaten:
            upto = next(i for i, command in enumerate(way) if command.startswith(f"take {eaten[0]}"))
            found["eats what was to be stowed"] = [*way[: upto + 1], f"eat {eaten[0]}", *way[upto + 1 :]]
        return found

    def _furniture(self, at: int) -> str:
        item = self.house.furniture[at]
        if not item.container:
            return f"a {item.name} with {self._things(at) or 'nothing'} on it"
        if not self.state.opened >> at & 1:
            return f"a closed {item.name}"
        return f"an open {item.name} with {self._things(at) or 'nothing'} in it"

    def _things(self, place: int) -> str:
        there = (
            thing.name for thing, where in zip(self.house.things, self.state.places, strict=True) if where == place
        )
        return ", ".join(there)

    def _exit(self, direction: str, there: int) -> str:
        text = f"{direction} to the {self.house.rooms[there]}" if self.names_exits else direction
        door = self.house.door(self.state.room, there)
        if door is None:
            return text
        return f"{text} ({'open' if self.state.opened >> door & 1 else 'closed'} door)"

    def _refusal(self, command: str) -> str:
        """Explain why a command was not carried out."""
        if command == "inventory":
            return f"You carry {self._things(CARRIED) or 'nothing'}."
        if command == "look":
            return "You look around."
        verb, _, rest = command.partition(" ")
        if verb == "go" and rest in DIRECTIONS:
            closed = rest in dict(self.house.exits[self.state.room])
            return f"The {rest} door is closed." if closed else f"There is no way {rest}."
        if not command:
            return "You say nothing."
        return f"You cannot do that here: {clip(command)!r}."


LOOKS = ("look", "inventory")


def read(text: str, possible: tuple[str, ...]) -> str:
    """Return the command that a text means, in the game's spelling; without a match, the text in plain form.

    Case, articles and final periods do not matter. ``north`` means ``go north``, ``pick up`` means ``take``, ``put …
    in`` means ``insert … into``, and the container to take a thing from may be omitted.
    """
    words = [word for word in text.lower().strip(" .!\n").split() if word not in ("the", "a", "an", "to")]
    if words[:2] == ["pick", "up"]:
        words = ["take", *words[2:]]
    if words and words[0] in VERBS:
        words[0] = VERBS[words[0]]
    if len(words) == 1 and words[0] in DIRECTIONS:
        words = ["go", *words]
    if words and words[0] in ("put", "insert"):
        index = next((i for i, word in enumerate(words) if word in ("in", "into")), None)
        words = words if index is None else ["insert", *words[1:index], "into", *words[index + 1 :]]
    command = " ".join(words)
    if command in possible or not command.startswith("take "):
        return command
    taken = [known for known in possible if known.startswith(f"{command} from ")]
    return taken[0] if len(taken) == 1 else command


class TextNavFO(TextNavEnv):
    """LMRL-Gym's Text-Nav, fully observed: the observation names the room. Exits are directions only, as there."""

    family = FIXED_HOUSE
    max_turns = 15
    names_exits = False


class TextNavPO(TextNavEnv):
    """LMRL-Gym's Text-Nav, partially observed: the agent has to infer its room from the furniture."""

    family = FIXED_HOUSE
    max_turns = 15
    names_room = False
    names_exits = False
