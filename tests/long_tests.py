"""Seconds of the longest tests, by which shifts are balanced and runs begin with what takes longest.

Rounded, on two cores with nothing beside them; ``scripts/test --seconds FILE`` measures. A number that is a little
wrong costs a little balance, and nothing else. A name that is no test is an error (``tests/test_shifts.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

CERTIFIES, IN_PARTS = (f"tests/envs/test_builtin.py::test_it_certifies{rest}" for rest in ("", "_in_parts"))
FIRST_LOOK = "tests/envs/miniwob/test_first_look.py::test_every_page_shows_the_same_to_a_late_first_look"
VOCABULARY = "tests/trainers/test_configs.py::test_a_vocabulary_has_room_for_what_the_demonstrators_say"

IN_SHIFTS: Mapping[str, float] = {
    f"{VOCABULARY}[bc-web]": 128,
    f"{IN_PARTS}[chromium-0]": 120,
    f"{CERTIFIES}[turnwise/CodeSynthesis-v1]": 110,
    f"{CERTIFIES}[turnwise/CodeSQL-v2]": 110,
    f"{CERTIFIES}[turnwise/CodeEfficiency-v3]": 90,
    f"{IN_PARTS}[chromium-1]": 80,
    f"{IN_PARTS}[chromium-3]": 80,
    "tests/envs/program/test_attacks.py::test_every_attempt_is_scored[docker]": 81,
    "tests/envs/program/test_attacks.py::test_every_attempt_is_scored[bubblewrap]": 78,
    **{f"{FIRST_LOOK}[{part}]": 77 for part in range(4)},
    f"{IN_PARTS}[chromium-2]": 61,
    f"{CERTIFIES}[turnwise/CodeShell-v2]": 53,
    "tests/benchmarks/test_study.py::test_a_study_runs_resumes_and_reports": 40,
    "mcp": 36,
}
"""Seconds by node id, or by the key that tests share, for their sum."""
IN_CORE: Mapping[str, float] = {
    "tests/test_public_surface.py::test_users_of_the_facades_see_the_true_types": 46,
    "tests/examples/test_examples.py::test_a_model_trains_on_code_that_runs_in_sandboxes": 37,
}
"""Seconds by node id."""
