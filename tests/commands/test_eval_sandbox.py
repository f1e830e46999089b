"""``turnwise eval --sandbox``: a name for the backend, where an environment takes one."""

from __future__ import annotations

import pytest

from turnwise.commands.evaluate import read, sees_to
from turnwise.errors import UsageError


def test_the_flag_is_a_constructor_argument() -> None:
    settings = read(["turnwise/CodeSynthesis-v1"], {"policy": "oracle", "env_kwargs.sandbox": "docker"}, None)
    assert settings.env_kwargs == {"sandbox": "docker"}
    sees_to(settings.env, "docker")


@pytest.mark.parametrize(
    ("env", "sandbox", "words"),
    [
        ("turnwise/Maze-v0", "bubblewrap", "turnwise/Maze-v0 does not run code in a sandbox: omit --sandbox"),
        ("harbor:tasks", "docker", "harbor:tasks always runs in docker"),
        ("turnwise/CodeShell-v2", "bubblewrp", "there is no sandbox backend 'bubblewrp'"),
    ],
)
def test_it_is_refused_where_it_means_nothing(env: str, sandbox: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        sees_to(env, sandbox)
