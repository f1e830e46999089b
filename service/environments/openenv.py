"""OpenEnv's grammar (release 0.10): what its messages mean to an environment of turns, and how answers look there.

OpenEnv knows one flag, ``done``. Whether the episode terminated or was truncated, its turn and its success stand in
``metadata``, which plain clients ignore.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from ...envs.messages import Action, ToolCall
from ...envs.remote.frames import of
from ...envs.remote.problems import problem_of
from ...envs.step import OUT_OF_TURNS
from ...envs.tools import Tool
from ...errors import RequestError, UsageError
from ...tasks.spec import TaskSpec
from .access import Client
from .catalog import Served
from .episodes import Episodes
from .served_episode import ServedEpisode
from .task_lists import family_of, task_at

CODES = {"full": "CAPACITY_REACHED", "draining": "CAPACITY_REACHED", "bad_frame": "VALIDATION_ERROR"}
CODES |= dict.fromkeys(("invalid_request", "body_too_large", "body_too_slow"), "VALIDATION_ERROR")
CODES |= {"task": "VALIDATION_ERROR", "usage": "VALIDATION_ERROR", "conflict": "SESSION_ERROR", "lost": "SESSION_ERROR"}
CODES |= {"busy": "SESSION_ERROR"}
"""OpenEnv's code by our kind of error; any other is an ``EXECUTION_ERROR``."""
TASK = ("split", "level", "template")
"""Parameters of ``reset`` beside ``seed``; ``task`` names a whole specification, and ``index`` a task of a split."""


class OpenEnvSession:
    """The environment of one OpenEnv client: at most one episode, closed with the session.

    Args:
        client: client of the session.
        served: environment.
        episodes: episodes of the server.
    """

    def __init__(self, client: Client, served: Served, episodes: Episodes) -> None:
        self._client, self._served, self._episodes = client, served, episodes
        self._id: str | None = None
        self._name: str | None = None

    async def reset(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Start an episode, in place of the one before."""
        task = task_of(self._served, data)
        await self.close()
        name = data.get("episode_id")
        self._id, self._name = secrets.token_hex(16), None if name is None else of(name, str, "episode_id")[:255]
        answer = await self._episodes.reset(self._client.name, self._id, self._served, task, 0.0, self)
        return observed(answer, self._name or self._id)

    async def step(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Take an action, or list the tools: those of the environment, before an episode has started."""
        if self._id is None and data.get("type") == "list_tools":
            return listed(tools_of(self._served))
        return await stepped(self._episodes, self._episode(), data, self._name or "")

    def state(self) -> dict[str, Any]:
        """Return the state that OpenEnv's clients read."""
        if self._id is None:
            return {"episode_id": None, "step_count": 0}
        return state_of(self._episode(), self._name)

    async def close(self) -> None:
        """End the episode, if there is one."""
        if self._id is not None:
            await self._episodes.close(self._client.name, self._id)
        self._id = None

    @property
    def served(self) -> Served:
        """The environment of the session."""
        return self._served

    @property
    def open_episode(self) -> ServedEpisode | None:
        """The episode of the session, if one has started."""
        return self._episode() if self._id is not None else None

    def _episode(self) -> ServedEpisode:
        if self._id is None:
            raise RequestError("there is no episode; send reset first", code="conflict")
        return self._episodes.find(self._client.name, self._id, self)


async def stepped(
    episodes: Episodes, episode: ServedEpisode, data: Mapping[str, Any], name: str, key: str | None = None
) -> dict[str, Any]:
    """Return the observation after an action; the same one if the last request had the same key."""
    if data.get("type") == "list_tools":
        return listed(tools_of(episode))
    action = action_of(data)
    taken = episodes.next_step(episode, action) if key is None else episodes.step_once(episode, key, action)
    answer = await taken
    return observed(answer, name or episode.id, called=data if _calls(data) else None)


def listed(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """Return tools as OpenEnv's observation of them."""
    return {"observation": {"tools": tools, "metadata": {}}, "reward": None, "done": False}


def observed(answer: Mapping[str, Any], name: str, *, called: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return one of our answers as OpenEnv's observation."""
    messages, info = answer["observation"], answer["info"]
    text = "\n".join("".join(part.get("text", "") for part in each["parts"]) for each in messages)
    terminated, truncated = bool(answer.get("terminated")), bool(answer.get("truncated"))
    metadata = {"episode_id": name, "turn": info.get("turn", 0), "terminated": terminated, "truncated": truncated}
    if terminated or truncated:
        metadata["success"] = bool(info.get("success", False))
        metadata |= {OUT_OF_TURNS: True} if info.get(OUT_OF_TURNS) else {}
    observation: dict[str, Any] = {"text": text, "messages": messages}
    if called is not None:
        failed = went_wrong(info)
        observation |= {"tool_name": called.get("tool_name"), "result": None if failed else text}
        observation["error"] = {"error_type": "tool_error", "message": text} if failed else None
    return {
        "observation": observation | {"metadata": metadata},
        "reward": answer.get("reward"),
        "done": terminated or truncated,
        "metadata": metadata,
    }


def went_wrong(info: Mapping[str, Any]) -> bool:
    """Return whether the environment could not carry out an action, or could not read it."""
    return any(info.get(key) for key in ("tool_errors", "unparsed"))


def action_of(data: Mapping[str, Any]) -> Action:
    """Return the action of a client: ``{"text": …}``, ``{"tool_calls": […]}``, or a call of OpenEnv's own form.

    Raises:
        RequestError: it is none of these.
    """
    if _calls(data):
        name = of(data.get("tool_name"), str, "tool_name")
        return Action(tool_calls=(ToolCall(name, of(data.get("arguments", {}), dict, "arguments")),))
    given = set(data) - {"metadata", "type"}
    if not given or given - {"text", "tool_calls"}:
        raise RequestError(
            'an action must be {"text": "…"}, {"tool_calls": [{"name": …, "arguments": {…}}]}, or '
            '{"type": "call_tool", "tool_name": …, "arguments": {…}}',
            code="bad_frame",
        )
    calls = [of(call, dict, "tool_calls") for call in of(data.get("tool_calls", []), list, "tool_calls")]
    made = (ToolCall(of(c.get("name"), str, "name"), of(c.get("arguments", {}), dict, "arguments")) for c in calls)
    text = data.get("text", "")
    if isinstance(text, int | float):  # clients that read replies as JSON: "7" becomes 7
        text = json.dumps(text)
    return Action(of(text, str, "text"), tuple(made))


def _calls(data: Mapping[str, Any]) -> bool:
    """Return whether an action is OpenEnv's ``CallToolAction``, whose ``type`` has a default."""
    return bool(data.get("type", "call_tool" if "tool_name" in data else "") == "call_tool")


def task_of(served: Served, data: Mapping[str, Any]) -> TaskSpec:
    """Return the task that ``reset`` chooses: by ``task``, ``split`` and ``index``, or ``seed`` (default: random)."""
    if data.get("task") is not None:
        return TaskSpec.from_json(of(data["task"], dict, "task"))
    if data.get("index") is not None:
        if beside := [name for name in ("seed", "level", "template") if data.get(name) is not None]:
            raise RequestError(f"split and index name the task; omit {beside[0]}", code="bad_frame")
        split = "train" if data.get("split") is None else of(data["split"], str, "split")
        return task_at(served, split, of(data["index"], int, "index"))
    seed = data.get("seed")
    seed = secrets.randbelow(2**31) if seed is None else of(seed, int, "seed")
    family = family_of(served)
    try:
        return family.spec(seed, **{name: data[name] for name in TASK if data.get(name) is not None})
    except (TypeError, KeyError) as error:
        raise UsageError(f"no task for these parameters: {error}") from None


def state_of(episode: ServedEpisode, name: str | None = None) -> dict[str, Any]:
    """Return the state of an episode; it leaves out the world itself."""
    return {"episode_id": name or episode.id, "step_count": episode.played, "over": episode.over}


def tools_of(owner: ServedEpisode | Served) -> list[dict[str, Any]]:
    """Return the tools of an episode, or of an environment, in the form of OpenEnv and MCP."""
    if isinstance(owner, Served):
        names = {"name": "name", "description": "description", "input_schema": "parameters"}
        return [{theirs: tool[ours] for theirs, ours in names.items()} for tool in owner.description["tools"]]
    tools: Sequence[Tool] = owner.host.tools if owner.host is not None else ()
    return [{"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in tools]


def error_of(error: Exception, client: Client, episodes: Episodes, verb: str) -> dict[str, Any]:
    """Return an exception that ``verb`` raised as the ``data`` of OpenEnv's error."""
    problem = problem_of(error, hidden=not client.operator, verb=verb)
    code = CODES.get(problem["kind"], "EXECUTION_ERROR")
    data: dict[str, Any] = {"message": problem["message"], "code": code}
    if code == "CAPACITY_REACHED":
        data |= {"active_sessions": episodes.places.load, "max_sessions": episodes.places.capacity}
    return data


def metadata(served: Served, release: str) -> dict[str, Any]:
    """Return the answer to ``/metadata``, whose fields OpenEnv fixes."""
    return {
        "name": served.id,
        "description": served.description["about"] or served.description["name"],
        "readme_content": None,
        "version": f"{release}+{served.digest}",
        "author": None,
        "documentation_url": None,
    }


def schema(served: Served) -> dict[str, Any]:
    """Return the JSON Schemas of action, observation and state."""
    text = {"type": "string", "description": "What the agent says."}
    names = [tool["name"] for tool in served.description["tools"]]
    # Clients take an action with the title ``Action`` for one of MCP, whose tools they list before the episode.
    title = "Action" if names else "TextAction"
    action: dict[str, Any] = {"title": title, "type": "object", "properties": {"text": text}, "required": ["text"]}
    observation: dict[str, Any] = {"text": {"type": "string"}, "messages": {"type": "array"}}
    observation["metadata"] = {"type": "object"}
    if names:
        action["properties"] |= {
            "type": {"enum": ["call_tool", "list_tools"]},
            "tool_name": {"enum": names},
            "arguments": {"type": "object"},
        }
        del action["required"]
        observation |= {"tool_name": {"type": "string"}, "result": {}, "error": {}}
    state = {"episode_id": {"type": ["string", "null"]}, "step_count": {"type": "integer", "minimum": 0}}
    return {
        "action": action,
        "observation": {"title": "Observation", "type": "object", "properties": observation},
        "state": {"title": "State", "type": "object", "properties": state},
    }
