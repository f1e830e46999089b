"""A result's record of its origin is complete, and has no secret."""

from __future__ import annotations

import sys

import pytest

from turnwise.logs import MASK
from turnwise.rollouts.provenance import masked, provenance


@pytest.mark.parametrize("name", ["key", "api_key", "env_kwargs.token", "password", "client-secret", "Authorization"])
def test_secrets_are_masked(name: str) -> None:
    assert masked({"env_kwargs": {name: "sk-1", "rows": [{name: "sk-2"}]}}) == {
        "env_kwargs": {name: MASK, "rows": [{name: MASK}]}
    }


def test_other_settings_are_kept() -> None:
    settings = {
        "max_tokens": 64,
        "tokenizer": "runs/x",
        "api": {"key_variable": "MY_KEY", "price": [1.0, 2.0]},
        "key": None,
    }
    assert masked(settings) == settings


def test_the_command_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["turnwise", "eval", "x", "--policy", "http://me:pw@host:1/v1", "env_kwargs.token=sk-1", "n=3"]
    monkeypatch.setattr(sys, "argv", words)
    made = provenance({"policy": words[4]})
    assert "pw" not in made.command + str(made.settings)
    assert "sk-1" not in made.command
    assert made.command.endswith("n=3")
