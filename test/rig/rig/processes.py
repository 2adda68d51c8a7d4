"""Processes of a rig: start, recognise, signal.

A process is known by its pid together with its start time and the boot of the machine, never by its name, so that a
pid that was given to somebody else is left alone. The child writes its own pid file before it becomes the program:
there is no moment in which a program runs without one, whenever its parent is killed.
"""

import errno
import os
import signal
import subprocess
import time
from pathlib import Path

from rig import programs
from rig.errors import USAGE, RigError

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_POLL_S = 0.01
# What the kernel sends to a program whose file is cut off or holds nonsense.
_DAMAGE_SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL)
# {pid: Popen} of what this process started: how it ended is told once only, and to its parent alone.
_children = {}


def _start_time_and_state(pid):
    """Start time in clock ticks and state letter from /proc, or None where there is no such process.

    A process whose first thread has ended is a zombie to /proc, while others may still hold its files and ports: it is "D" then.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2:].split()
    state, threads = fields[0], int(fields[17])
    return fields[19], "D" if state in "ZX" and threads > 1 else state


def write_own_pid(pid_file):
    write_pid(pid_file, os.getpid())


def write_pid(pid_file, pid):
    found = _start_time_and_state(pid)
    if found is None:
        raise RigError(f"there is no process {pid}", code=USAGE)
    line = f"{pid} {found[0]} {_BOOT_ID.read_text().strip()}\n"
    temporary = f"{pid_file}.{os.getpid()}"
    with open(temporary, "w", encoding="ascii") as handle:
        handle.write(line)
    os.rename(temporary, pid_file)


def start(argv, environment, folder, log, pid_file, prepare=None):
    """Starts a program in a session of its own, so that Ctrl-C in the terminal does not reach it. Returns its pid.

    `prepare` runs in the child instead of writing the pid file, which then is its duty.
    """
    try:
        with open(log, "ab") as output:
            child = subprocess.Popen(
                argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=prepare or (lambda: write_own_pid(pid_file)))
    except OSError as error:
        if error.errno == errno.ENOEXEC:
            raise programs.damaged(argv[0]) from None
        raise
    _children[child.pid] = child
    return child.pid


def await_end(pid):
    """Of a process that `start` made and that only starts another."""
    if _children.pop(pid).wait() != 0:
        raise RigError(f"a program could not be started: its starter ended with an error (pid {pid})")


def ended_as_damaged(pid_file):
    """Whether a program that this process started was ended by a signal that tells of a damaged file."""
    try:
        child = _children.get(int(Path(pid_file).read_text(encoding="ascii").split()[0]))
    except (FileNotFoundError, ValueError, IndexError):
        return False
    return child is not None and child.poll() in [-number for number in _DAMAGE_SIGNALS]


def running_pid(pid_file):
    """Pid of the process that wrote `pid_file` if it still lives, else None."""
    try:
        pid, started, boot = Path(pid_file).read_text(encoding="ascii").split()
    except (FileNotFoundError, ValueError):
        return None
    if boot != _BOOT_ID.read_text().strip():
        return None
    found = _start_time_and_state(int(pid))
    if found is None or found[0] != started:
        return None
    if found[1] in "ZX":
        _reap(int(pid))
        return None
    return int(pid)


def is_paused(pid):
    found = _start_time_and_state(pid)
    return found is not None and found[1] == "T"


def _reap(pid):
    if pid in _children:
        _children[pid].poll()
        return
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        pass


def send(pid_file, number):
    """Sends a signal if the process lives. Returns whether it did."""
    pid = running_pid(pid_file)
    if pid is None:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True


def wait_gone(pid_file, timeout_s):
    deadline = time.monotonic() + timeout_s
    while running_pid(pid_file) is not None:
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def stop(pid_file, grace_s):
    """Asks to end, and kills after `grace_s`. Returns whether the program ended by itself."""
    # A paused process takes the request only after it goes on.
    by_itself = send(pid_file, signal.SIGTERM) and send(pid_file, signal.SIGCONT) and wait_gone(pid_file, grace_s)
    if not by_itself:
        kill(pid_file)
    return by_itself


def kill(pid_file, timeout_s=10.0):
    send(pid_file, signal.SIGKILL)
    if not wait_gone(pid_file, timeout_s):
        raise RuntimeError(f"process does not go away after SIGKILL: {Path(pid_file).read_text().strip()}")


def resident_mib(pid):
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
