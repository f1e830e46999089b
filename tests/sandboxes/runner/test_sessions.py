"""Sessions: a run finds the state of the one before; the end of a session is reported, and has few causes."""

from __future__ import annotations

import pytest

from turnwise.errors import ToolError
from turnwise.sandboxes.result import Status
from turnwise.sandboxes.sandbox import Sandbox


async def test_a_shell_keeps_its_state(trusted: Sandbox) -> None:
    shell = await trusted.session()
    assert (await shell.run("mkdir -p deep; cd deep; colour=red; greet() { echo hello $1; }; set -- one two")).ok
    assert (await shell.run('greet $colour; basename "$PWD"; echo $2')).stdout.text == "hello red\ndeep\ntwo\n"
    await shell.close()
    assert not shell.alive


@pytest.mark.parametrize(
    ("source", "code", "stdout"),
    [
        ("cat; echo after", 0, "after\n"),
        ("cat <<END\na $((1 + 1))\nEND", 0, "a 2\n"),
        ("printf 'no newline'", 0, "no newline"),
        ("echo '1 0'; echo '2 0' >&2; false", 1, "1 0\n"),
        ("if then", 2, ""),
        ("return 5", 5, ""),
        ("no_such_program", 127, ""),
        ("(exit 9)", 9, ""),
        ("break; continue; echo still here", 0, "still here\n"),
    ],
)
async def test_a_shell_says_how_it_went_and_goes_on(trusted: Sandbox, source: str, code: int, stdout: str) -> None:
    shell = await trusted.session()
    result = await shell.run(source)
    assert (result.status, result.exit_code, result.stdout.text) == (Status.EXITED, code, stdout)
    assert (await shell.run("echo next")).stdout.text == "next\n", "the session must go on"


async def test_a_shell_without_output_still_says_how_it_went(trusted: Sandbox) -> None:
    shell = await trusted.session()
    assert (await shell.run("exec 1>&- 2>&-; true")).ok
    assert (await shell.run("false")).exit_code == 1
    assert (await shell.run("echo lost")).stdout.size == 0


@pytest.mark.parametrize(("source", "code"), [("exit 7", 7), ("set -e; false; true", 1), ("exec true", 0)])
async def test_what_ends_a_shell_ends_the_session(trusted: Sandbox, source: str, code: int) -> None:
    shell = await trusted.session()
    result = await shell.run(source)
    assert (result.status, result.exit_code, shell.alive) == (Status.EXITED, code, False)
    with pytest.raises(ToolError, match="the session has ended"):
        await shell.run("true")


async def test_an_interrupted_shell_goes_on(trusted: Sandbox) -> None:
    shell = await trusted.session()
    await shell.run("kept=yes")
    result = await shell.run("for i in 1 2 3; do sleep 600; echo never; done", timeout=0.2)
    assert (result.status, result.stdout.text) == (Status.TIMEOUT, "")
    assert (await shell.run("echo $kept")).stdout.text == "yes\n"


async def test_a_child_that_does_not_hear_is_killed_for_the_shell(trusted: Sandbox) -> None:
    shell = await trusted.session()
    result = await shell.run("sh -c 'trap \"\" INT; sleep 600; sleep 600'", timeout=0.2)
    assert result.status is Status.TIMEOUT
    assert (await shell.run("echo here")).stdout.text == "here\n"


@pytest.mark.slow
async def test_a_shell_that_does_not_hear_is_ended(trusted: Sandbox) -> None:
    shell = await trusted.session()
    result = await shell.run("trap '' INT; while :; do :; done", timeout=0.2)
    assert (result.status, shell.alive) == (Status.TIMEOUT, False)


async def test_what_a_shell_has_started_goes_on_until_it_is_closed(trusted: Sandbox) -> None:
    shell = await trusted.session()
    await shell.run("sleep 600 & echo $! > pid")
    assert (await trusted.exec("kill -0 $(cat pid)")).ok, "a command's end must not end what a session has started"
    await shell.close()
    assert not (await trusted.exec("kill -0 $(cat pid)")).ok


async def test_python_keeps_its_state_and_shows_the_last_value(trusted: Sandbox) -> None:
    python = await trusted.session("python")
    assert (await python.run("def double(x):\n    return 2 * x\n")).stdout.text == ""
    assert (await python.run("y = double(4)\ny + 1")).stdout.text == "9\n"
    assert (await python.run("None")).stdout.text == ""
    assert (await python.run("_")).stdout.text == "9\n"
    assert (await python.run("import sys; sys.argv, __name__")).stdout.text == "([''], '__main__')\n"


async def test_python_finds_modules_in_the_working_directory(trusted: Sandbox) -> None:
    await trusted.write_files({"helper.py": b"value = 42\n"})
    python = await trusted.session("python")
    assert (await python.run("import helper; helper.value")).stdout.text == "42\n"


@pytest.mark.parametrize(
    ("source", "last"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def (", "SyntaxError: invalid syntax"),
        ("input()", "EOFError: EOF when reading a line"),
        ("raise BaseException('odd')", "BaseException: odd"),
        ("'\\ud800'.encode()", "surrogates not allowed"),
    ],
)
async def test_an_exception_is_a_traceback_of_the_source_alone(trusted: Sandbox, source: str, last: str) -> None:
    python = await trusted.session("python")
    result = await python.run(source)
    assert (result.status, result.exit_code) == (Status.EXITED, 1)
    assert last in result.stderr.text.splitlines()[-1]
    assert "interpreter.py" not in result.stderr.text
    assert "ast.py" not in result.stderr.text
    assert (await python.run("'still ' + 'here'")).stdout.text == "'still here'\n"


async def test_an_interrupted_python_goes_on(trusted: Sandbox) -> None:
    python = await trusted.session("python")
    await python.run("kept = 1")
    result = await python.run("while True: pass", timeout=0.3)
    assert result.status is Status.TIMEOUT
    assert "KeyboardInterrupt" in result.stderr.text
    assert (await python.run("kept")).stdout.text == "1\n"


@pytest.mark.slow
async def test_a_python_that_does_not_hear_is_ended(trusted: Sandbox) -> None:
    python = await trusted.session("python")
    deaf = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    assert (await python.run(deaf, timeout=0.2)).status is Status.TIMEOUT
    assert not python.alive


async def test_leaving_python_ends_the_session_with_its_code(trusted: Sandbox) -> None:
    python = await trusted.session("python")
    result = await python.run("print('bye')\nraise SystemExit(4)")
    assert (result.exit_code, result.stdout.text, python.alive) == (4, "bye\n", False)


async def test_sessions_end_with_their_sandbox(trusted: Sandbox) -> None:
    shell = await trusted.session()
    await trusted.destroy()
    assert not shell.alive
    await shell.close()
