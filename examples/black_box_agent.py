"""An agent that does not import Turnwise: OpenAI's SDK, a loop, and the URL of an environment.

``turnwise eval turnwise/Maze-v0 --program "python examples/black_box_agent.py" --policy runs/loop/model`` evaluates it.
"""

import json
import os
import urllib.request

from openai import OpenAI


def world(action=None):
    """Return the state of the environment, after an action if one is given."""
    body = None if action is None else json.dumps(action).encode()
    request = urllib.request.Request(os.environ["TURNWISE_ENV_URL"], body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main():
    client = OpenAI()  # reads OPENAI_BASE_URL and OPENAI_API_KEY
    state = world()
    messages, tools = state["messages"], {"tools": state["tools"]} if state["tools"] else {}
    while not state["done"]:
        answer = client.chat.completions.create(model="policy", messages=messages, **tools)
        said = answer.choices[0].message
        calls = [call.model_dump() for call in said.tool_calls or []]
        messages.append(said.model_dump(exclude_none=True))
        state = world({"text": said.content or "", "tool_calls": calls})
        messages += state["messages"]


if __name__ == "__main__":
    main()
