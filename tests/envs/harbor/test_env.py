"""A hand-written task is played: the oracle gets 1, doing nothing gets 0, and what gives no score is never 0."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

import turnwise as tw
from turnwise.envs.harbor.env import SUBMIT, HarborEnv
from turnwise.envs.named import environment
from turnwise.errors import EnvironmentFailedError, UnknownEnvironmentError, UsageError
from turnwise.sandboxes import LOOP

from .worlds import DOCKERFILE, TOML, task_folder

slow = [pytest.mark.slow, pytest.mark.shift]
WRITES = "#!/bin/bash\n{}\n"


def played(env: tw.TurnEnv) -> tuple[float, dict[str, object]]:
    """Let the oracle play an episode."""
    env.reset(seed=0)
    while True:
        _, reward, terminated, truncated, info = env.step(env.oracle())
        if terminated or truncated:
            return reward, info


def run(env: tw.TurnEnv, command: str) -> str:
    """Run a command, and return what the agent sees."""
    return env.step(tw.ToolCall("run", {"command": command}))[0].messages[0].text


class TestADemo:
    pytestmark = slow

    def test_the_oracle_gets_1_and_doing_nothing_0(self, demo: Path) -> None:
        env = tw.make(f"harbor:{demo}")
        reward, info = played(env)
        assert (reward, info["success"], info["rewards"]) == (1.0, True, {"reward": 1.0})
        env.reset(seed=0)
        _, reward, terminated, _, info = env.step(SUBMIT)
        assert (reward, terminated, info["success"]) == (0.0, True, False)
        env.close()

    def test_the_agent_has_no_network_no_tests_and_no_solution(self, demo: Path) -> None:
        env = HarborEnv(demo)
        env.reset(seed=0)
        seen = run(env, "ls /tests; ls -A /solution /logs/verifier; ls /sys/class/net; id -u; pwd; echo $GREETING")
        assert "/tests'" in seen or "/tests:" in seen, "there is no such folder"
        assert "compare.py" not in seen
        assert "fixed.py" not in seen
        assert "eth" not in seen
        assert "\n0\n" not in seen, "commands do not run as root"
        assert "/app\nhello" in seen
        env.close()

    def test_an_episode_that_is_judged_early_goes_on(self, demo: Path) -> None:
        env = HarborEnv(demo)
        env.reset(seed=0)
        run(env, "touch kept")
        assert not LOOP.wait(env.judge()).success
        assert "kept" in run(env, "ls")
        env.step(env.oracle())
        _, reward, terminated, _, _ = env.step(SUBMIT)
        assert (reward, terminated) == (1.0, True)
        env.close()

    def test_a_fork_has_the_files_and_goes_its_own_way(self, demo: Path) -> None:
        env = HarborEnv(demo)
        env.reset(seed=0)
        run(env, "echo 12 > answer.txt")
        other = copy.deepcopy(env)
        run(other, "echo 13 > answer.txt")
        assert run(env, "cat answer.txt").startswith("12\n")
        env.close()
        other.close()

    def test_the_time_of_all_commands_is_limited(self, demo: Path, tmp_path: Path) -> None:
        toml = (demo / "task.toml").read_text().replace("timeout_sec = 60.0", "timeout_sec = 1.0")
        env = HarborEnv(task_folder(tmp_path / "short", {"task.toml": toml}))
        env.reset(seed=0)
        _, reward, terminated, _, info = env.step(tw.ToolCall("run", {"command": "sleep 20"}))
        assert (reward, terminated, info["success"]) == (0.0, True, False)
        env.close()

    @pytest.mark.parametrize(
        ("test", "says"),
        [
            ("exit 0", "no reward file"),
            ("echo yes > /logs/verifier/reward.txt", "not a number"),
            ("echo 1.5 > /logs/verifier/reward.txt", "not from 0 to 1"),
            ('echo \'{"a": 1, "b": 0}\' > /logs/verifier/reward.json', "none of them"),
            ("echo 1 > /logs/verifier/reward.txt; exit 3", "exit code 3"),
            ("kill -9 $$", "signal 9"),
        ],
    )
    def test_tests_without_a_valid_reward_give_no_score(self, demo: Path, tmp_path: Path, test: str, says: str) -> None:
        env = HarborEnv(task_folder(tmp_path / "task", {"tests/test.sh": WRITES.format(test)}))
        env.reset(seed=0)
        with pytest.raises(EnvironmentFailedError, match=says):
            env.step(SUBMIT)
        env.close()

    @pytest.mark.parametrize(
        ("test", "reward"),
        [
            ("echo 0.25 > /logs/verifier/reward.txt", 0.25),
            ('echo \'{"reward": 0.5, "speed": 7}\' > /logs/verifier/reward.json', 0.5),
            ("echo '{\"speed\": 1}' > /logs/verifier/reward.json", 1.0),
            ("echo 1 > /logs/verifier/reward.txt; echo 0 > /logs/verifier/reward.json", 0.0),
            ("echo 0 > /logs/verifier/reward.txt; exit 1", 0.0),
        ],
    )
    def test_rewards_are_read_from_either_file(self, demo: Path, tmp_path: Path, test: str, reward: float) -> None:
        env = HarborEnv(task_folder(tmp_path / "task", {"tests/test.sh": WRITES.format(test)}))
        env.reset(seed=0)
        assert env.step(SUBMIT)[1] == reward
        env.close()

    def test_a_separate_verifier_receives_artifacts_only(self, demo: Path, tmp_path: Path) -> None:
        artifacts = 'artifacts = [{ source = "out", exclude = ["*.o"] }]\n'
        listing = "find . -type f | sort | tr '\\n' ' '"
        test = f'test "$({listing})" = "./numbers.txt ./out/a.txt ./solve.py " && test -e /mark && echo 1'
        changes = {
            "task.toml": f"{artifacts}{TOML}[verifier.environment]\nmemory_mb = 128\n",
            "tests/Dockerfile": f"{DOCKERFILE}COPY numbers.txt /mark\nCOPY test.sh /tests/test.sh\n",
            "tests/numbers.txt": "1\n",
            "tests/broken.py": "",
            "tests/test.sh": WRITES.format(f"{test} > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt"),
        }
        env = HarborEnv(task_folder(tmp_path / "task", changes), offline=True)
        env.reset(seed=0)
        run(env, "mkdir out; echo 1 > out/a.txt; echo 2 > out/b.o; echo 3 > other.txt; echo > solve.py")
        run(env, "ln -s /tests/test.sh out/link; ln -s ../other.txt out/other; rm numbers.txt")
        assert env.step(SUBMIT)[1] == 1
        env.close()

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"environment/Dockerfile": "FROM turnwise-demo/missing:1\n"}, "docker pull turnwise-demo/missing:1"),
            ({"environment/Dockerfile": "FROM $OTHER\n"}, "without a default"),
            ({"environment/Dockerfile": "FROM turnwise-host\nWORKDIR /root\n"}, "workdir /root"),
            ({"environment/Dockerfile": "FROM turnwise-host\nWORKDIR /tests\n"}, "is /tests, which"),
            ({"environment/Dockerfile": "FROM turnwise-host\nRUN exit 3\n"}, "cannot build"),
        ],
    )
    def test_an_image_that_cannot_be_used_is_one_line(
        self, demo: Path, tmp_path: Path, changes: dict[str, str], says: str
    ) -> None:
        env = HarborEnv(task_folder(tmp_path / "task", changes))
        with pytest.raises(tw.TurnwiseError, match=says) as raised:
            env.reset(seed=0)
        assert "\n" not in str(raised.value)


def test_a_network_that_a_task_expects_is_refused_until_it_is_waived(tmp_path: Path) -> None:
    folder = task_folder(tmp_path / "task", {"task.toml": 'schema_version = "1.1"\n'})
    with pytest.raises(UsageError, match="offline=True"):
        tw.make(f"harbor:{folder}")
    assert tw.make(f"harbor:{folder}", offline=True).tasks().seeds == 1


def test_ids_name_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b", "a"):
        task_folder(tmp_path / "tasks" / name)
    monkeypatch.chdir(tmp_path)
    assert environment("harbor:tasks") == f"harbor:{tmp_path / 'tasks'}", "other processes have other folders"
    family = tw.make("harbor:tasks").tasks()
    assert [family.generate(spec).folder.name for spec in family.sample(3)] == ["a", "b", "a"]
    with pytest.raises(UnknownEnvironmentError, match="there is no folder missing"):
        tw.make("harbor:missing")
    with pytest.raises(UnknownEnvironmentError, match="'harbor:' names no folder"):
        tw.make("harbor:")
    with pytest.raises(UsageError, match="'sandbox'; it takes"):
        tw.make("harbor:tasks", sandbox="bubblewrap")
