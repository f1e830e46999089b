"""The laws as tests of your own suite: inherit ``EnvironmentLaws``, name your environment, and run pytest.

Put this in a test module, and every law becomes a test with the law in its name::

    from turnwise.envs.certify.pytest_laws import EnvironmentLaws

    class TestMyEnv(EnvironmentLaws):
        env_id = "mine/MyEnv-v0"          # or: env_id = MyEnv

    $ pytest -k TestMyEnv
    tests/test_my_env.py::TestMyEnv::test_oracle_solves PASSED
    tests/test_my_env.py::TestMyEnv::test_fork_is_independent FAILED
        playing in a fork of turn 0 changes the original; counted from there, turn 1: …

Nothing has to be configured, and pytest itself is not imported here: the tests are plain methods.
"""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any, ClassVar

from ...verdicts import Status
from ..base import TurnEnv
from .certify import LAWS, laboratory, tried
from .harness import Harness
from .law import Law


class EnvironmentLaws:
    """One test per law. Subclass it as ``Test…``."""

    env_id: ClassVar[str | Callable[..., TurnEnv]]
    """An id, a class, or a static function that makes an environment."""
    quick: ClassVar[bool] = False
    """Fewer tasks and shorter episodes."""
    samples: ClassVar[int | None] = None
    """Tasks per split and level; 3, or 1 with ``quick``."""
    seed: ClassVar[int] = 0
    """The first of the sampled seeds."""

    _lab: ClassVar[Harness | None] = None

    @classmethod
    def harness(cls) -> Harness:
        """Return the harness in which the laws are tried; made once per class."""
        if cls.__dict__.get("_lab") is None:
            # Looked up without binding, so that a plain function may stand there.
            target = next(vars(base)["env_id"] for base in cls.__mro__ if "env_id" in vars(base))
            if isinstance(target, staticmethod):
                target = target.__func__
            cls._lab = laboratory(target, samples=cls.samples, quick=cls.quick, seed=cls.seed)
        harness = cls._lab
        assert harness is not None
        return harness


def _test_of(law: Law) -> Callable[[Any], None]:
    def test(self: EnvironmentLaws) -> None:
        verdict = tried(law, self.harness())
        if verdict.status is Status.SKIP:
            raise unittest.SkipTest(verdict.reason)
        assert verdict.status is Status.PASS, str(verdict)

    test.__name__ = test.__qualname__ = f"test_{law.name}"
    test.__doc__ = f"{law.about[0].upper()}{law.about[1:]}."
    return test


for _law in LAWS:
    setattr(EnvironmentLaws, f"test_{_law.name}", _test_of(_law))
