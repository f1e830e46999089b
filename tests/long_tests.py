"""Seconds of the longest tests, by which shifts are balanced and runs begin with what takes longest.

Rounded, on two cores with nothing beside them; ``scripts/test --seconds FILE`` measures. A number that is a little
wrong costs a little balance, and nothing else. A name that is no test is an error (``tests/test_shifts.py``).
"""

from __future__ import annotations

from collections.abc import Mapping

CERTIFIES, IN_PARTS = (f"tests/envs/test_builtin.py::test_it_certifies{rest}" for rest in ("", "_in_parts"))
FIRST_LOOK = "tests/envs/miniwob/test_first_look.py::test_every_page_shows_the_same_to_a_late_first_look"
VOCABULARY = "tests/trainers/test_configs.py::test_a_vocabulary_has_room_for_what_the_demonstrators_say"

SERVERS = "tests/commands/test_eval_servers.py::test_"
GPU_TRIAL = "tests/benchmarks/test_gpu_trial.py::test_"
IN_SHIFTS: Mapping[str, float] = {
    "tests/envs/web/test_attacks.py::test_every_attempt_is_scored_in_chromium": 160,
    f"{VOCABULARY}[bc-web]": 128,
    f"{IN_PARTS}[chromium-0]": 240,
    f"{CERTIFIES}[turnwise/CodeSynthesis-v1]": 130,
    f"{CERTIFIES}[turnwise/CodeSQL-v2]": 110,
    f"{CERTIFIES}[turnwise/CodeEfficiency-v3]": 90,
    f"{IN_PARTS}[chromium-1]": 180,
    f"{IN_PARTS}[chromium-3]": 180,
    "tests/envs/program/test_attacks.py::test_every_attempt_is_scored[docker]": 81,
    "tests/envs/program/test_attacks.py::test_every_attempt_is_scored[bubblewrap]": 78,
    **{f"{FIRST_LOOK}[{part}]": 77 for part in range(4)},
    f"{IN_PARTS}[chromium-2]": 110,
    f"{CERTIFIES}[turnwise/CodeShell-v2]": 53,
    "tests/tasks/games/test_wordle.py::test_the_oracle_finds_every_secret_in_six[5-3.64-6]": 65,
    "tests/tasks/code/test_how_many_tasks.py::test_there_are_ten_thousand_different_tasks": 220,
    "tests/tasks/apps/test_how_many_tasks.py::test_there_are_a_hundred_thousand_different_tasks": 50,
    f"{GPU_TRIAL}without_vllm_and_trl_their_checks_say_so[serving]": 45,
    "tests/benchmarks/test_study.py::test_a_study_runs_resumes_and_reports": 40,
    f"{GPU_TRIAL}a_part_beyond_its_limit_is_a_line_and_the_report_is_written": 37,
    "tests/examples/test_examples.py::test_a_model_trains_on_code_that_runs_in_sandboxes": 37,
    **{f"{IN_PARTS}[repair-{part}]": 45 for part in range(4)},
    f"{IN_PARTS}[stockfish-3]": 60,
    f"{SERVERS}a_signal_leaves_no_server[2-launched]": 60,
    **{f"{SERVERS}a_signal_leaves_no_server[{kind}-out/episodes/part-*.parquet]": 100 for kind in (9, 15)},
    f"{SERVERS}an_evaluation_places_its_servers_and_stops_them": 60,
    f"{SERVERS}an_interrupted_evaluation_stops_its_servers": 80,
    "tests/envs/code/test_attacks.py::test_every_attack_is_scored[bubblewrap-text-names2]": 50,
    "tests/docs/test_pages.py::test_a_page_does_what_it_says[gymnasium]": 50,
    f"{GPU_TRIAL}the_plan_runs_every_check[correctness]": 80,
    f"{GPU_TRIAL}the_plan_runs_every_check[speed]": 60,
    f"{GPU_TRIAL}the_plan_runs_every_check[learning]": 50,
    f"{CERTIFIES}[turnwise/Apps-v2]": 30,
    f"{CERTIFIES}[turnwise/Search-v1]": 23,
    "mcp": 36,
}
"""Seconds by node id, or by the key that tests share, for their sum."""
IN_CORE: Mapping[str, float] = {
    "tests/trainers/test_processes.py::test_two_processes_learn_what_one_does[core]": 40,
    "tests/commands/test_train.py::test_ctrl_c_leaves_a_run_that_resumes": 17,
}
"""Seconds by node id."""
