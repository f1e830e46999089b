"""Starting and ending processes inside: each in a session of its own, with no leftovers."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # ``signal`` imports ``enum``, which takes too long
import posix
import time

from .wire import Refused

TYPE_CHECKING = False  # importing it from ``typing`` would take longer than the rest of the start
if TYPE_CHECKING:
    from collections.abc import Callable

SIGINT, SIGKILL, SIGPIPE, SIGXFSZ = 2, 9, 13, 25
ENOENT, EAGAIN, ENOMEM, EACCES, ENOTDIR = 2, 11, 12, 13, 20
PR_SET_DUMPABLE = 4
LOW = 10
"""Descriptors below this one are reserved for programs; the runner's own are above (``reserve``)."""


def prctl(option: int, value: int) -> bool:
    """Call prctl(2), and return whether the kernel did it; a Python without ``_ctypes`` cannot."""
    try:
        import _ctypes
    except ImportError:
        return False
    library = _ctypes.dlopen(None, 0)  # type: ignore[arg-type]  # ``None`` is this program itself
    address = _ctypes.dlsym(library, "prctl")
    return bool(_ctypes.call_function(address, (option, value, 0, 0, 0)) == 0)


def on_signal(number: int, handler: Callable[..., object]) -> None:
    """Call ``handler`` when a signal comes; started programs have the kernel's default instead."""
    _signal.signal(number, handler)


def wake_up_on_signals(descriptor: int) -> None:
    """Also write to a descriptor whenever a signal with a handler comes."""
    _signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)


def alarm_after(seconds: float) -> None:
    """Request ``SIGALRM`` for this process."""
    _signal.setitimer(_signal.ITIMER_REAL, seconds)


def ignored(*_: object) -> None:
    """Handle a signal by doing nothing."""


def reserve() -> None:
    """Occupy every low descriptor, so that none of the runner's pipes gets one that is reserved for a program."""
    while posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC) < LOW - 1:
        pass


class Spawner:
    """Starts programs, each in a session of its own; when memory is short, the kernel kills them before the runner.

    It must be created before the runner hides from other processes, and so from itself.
    """

    def __init__(self) -> None:
        self.before = read_small("/proc/self/oom_score_adj") or b"0"
        try:
            self.score = posix.open("/proc/self/oom_score_adj", posix.O_WRONLY | posix.O_CLOEXEC)
        except OSError:
            self.score = -1

    def spawn(self, argv: list[bytes], cwd: bytes, env: dict[bytes, bytes], given: dict[int, int]) -> int:
        """Start a program and return its process id, without a copy of the runner's memory.

        Args:
            argv: the program, looked for along its ``PATH``, and its arguments.
            cwd: working directory.
            env: its whole environment.
            given: descriptors of the runner, by the low numbers that the program will have them under.

        Raises:
            Refused: there is no such program or directory, or no room for a process.
        """
        actions = [(posix.POSIX_SPAWN_DUP2, source, target) for target, source in given.items()]
        try:
            posix.chdir(cwd)
        except OSError as error:
            raise _cannot("directory", cwd, error) from None
        self._offer(b"1000")
        try:
            return _spawned(argv, env, actions)
        except OSError as error:
            raise _cannot("program", argv[0], error) from None
        finally:
            self._offer(self.before)
            posix.chdir("/")

    def _offer(self, score: bytes) -> None:
        """Set how soon the kernel kills this process, and its children, when memory is short."""
        if self.score >= 0:
            posix.write(self.score, score)


def _spawned(argv: list[bytes], env: dict[bytes, bytes], actions: list[tuple[int, int, int]]) -> int:
    """Start a program from the ``PATH``; if all attempts fail, raise the most informative error."""
    failure = OSError(ENOENT, "")
    folders = [folder + b"/" for folder in env.get(b"PATH", b"").split(b":") if folder]
    for folder in [b""] if b"/" in argv[0] else folders:
        if folder and not posix.access(folder + argv[0], posix.F_OK):
            continue
        try:
            return posix.posix_spawn(
                folder + argv[0], argv, env, file_actions=actions, setsid=True, setsigdef=(SIGPIPE, SIGXFSZ)
            )
        except OSError as error:
            failure = error if error.errno not in (ENOENT, ENOTDIR) else failure
    raise failure


def _cannot(what: str, name: bytes, error: OSError) -> Refused:
    """Return a human-readable error for a program or its directory."""
    if error.errno in (EAGAIN, ENOMEM):
        return Refused("the sandbox has no room for another process")
    known = {ENOENT: "there is no", ENOTDIR: "there is no", EACCES: "it is not permitted to use the"}
    why = known.get(error.errno or 0, f"{posix.strerror(error.errno or 0)}: cannot use the")
    return Refused(f"{why} {what} {name.decode('utf-8', 'replace')}")


def read_small(path: str) -> bytes:
    """Return the content of a small file of the system; empty if it no longer exists."""
    try:
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return posix.read(descriptor, 65536)
    except OSError:
        return b""
    finally:
        posix.close(descriptor)


def facts(pid: int | str) -> list[bytes]:
    """Return the fields of ``/proc/PID/stat`` after the name: state, parent, group, session, ...; empty if it ended."""
    text = read_small(f"/proc/{pid}/stat")
    return text[text.rfind(b")") + 2 :].split() if text else []


def family(root: int, *, sessions: bool) -> set[int]:
    """Return live descendants of ``root``, and with ``sessions`` also members of sessions that one of them leads."""
    known = {int(name): facts(name) for name in posix.listdir("/proc") if name.isdigit()}
    links = {pid: (int(f[1]), int(f[3])) for pid, f in known.items() if f and f[0] not in b"ZX"}
    members, grown = {root}, True
    while grown:
        more = {
            pid
            for pid, (parent, session) in links.items()
            if pid not in members and (parent in members or (sessions and session in members))
        }
        members |= more
        grown = bool(more)
    return members - {root}


def signal_all(pids: set[int], number: int) -> None:
    """Send a signal to each of them that still exists."""
    for pid in pids:
        try:
            posix.kill(pid, number)
        except OSError:
            pass


def kill_family(root: int) -> None:
    """Kill the descendants of a process and members of its session, not itself, until none is left.

    A process that has left the session *and* lost its parent is indistinguishable from other commands' processes. It
    stays until nothing else runs in the sandbox.
    """
    for _ in range(100):
        rest = family(root, sessions=True)
        if not rest:
            return
        signal_all(rest, SIGKILL)


def kill_everything() -> None:
    """Kill every process but this one, and wait until all have ended, for at most five seconds."""
    me, until = posix.getpid(), time.monotonic() + 5
    while time.monotonic() < until:
        try:
            while posix.waitpid(-1, posix.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        signal_all({-1} if me == 1 else family(me, sessions=False), SIGKILL)
        time.sleep(0.0005)
