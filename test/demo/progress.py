"""Steps that take long: shows that they move, and how long they usually take."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from harness import places

from rig.errors import RigError

_TERMINAL_TICK_S = 0.5
_PIPE_TICK_S = 15.0
_TERMINAL = sys.stdout.isatty()
_LINE = 150


@contextlib.contextmanager
def stage(title, usual):
    """Prints the title, then how long it took; a terminal sees the seconds pass."""
    began = time.monotonic()
    if not _TERMINAL:
        print(f"   {title} ... {usual}", flush=True)
    done = threading.Event()

    def tick():
        while not done.wait(_TERMINAL_TICK_S):
            print(f"\r   {title} ... {time.monotonic() - began:.0f} s, {usual}\033[K", end="", flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    if _TERMINAL:
        ticker.start()
    try:
        yield
    except BaseException:
        done.set()
        if _TERMINAL:
            ticker.join()
            print()
        raise
    done.set()
    if _TERMINAL:
        ticker.join()
    print(f"{chr(13) if _TERMINAL else ''}   {title}: {time.monotonic() - began:.1f} s" + ("\033[K" if _TERMINAL else ""), flush=True)


class _Build:
    """One build beside the other, its output in a file."""

    def __init__(self, name, usual, command):
        self.name = name
        self.usual = usual
        self.output = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["nice", "-n", "5", *map(str, command)], stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT, start_new_session=True, cwd=places.SOURCE)

    def last_line(self):
        size = self.output.seek(0, os.SEEK_END)
        self.output.seek(max(0, size - 2000))
        lines = re.split(r"[\r\n]+", self.output.read().strip())
        return re.sub(r"\033\[[0-9;]*[A-Za-z]", "", lines[-1])

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def end(self):
        """Ends the compilers too: they are in the same session. SIGINT first, so that it says what the next run goes on with."""
        for number, patience_s in ((signal.SIGINT, 5), (signal.SIGKILL, 10)):
            if self.process.poll() is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(patience_s)


def build_programs():
    """Builds the programs of Kubernetes and Asterism side by side. Both go on where an earlier build was stopped."""
    began = time.monotonic()
    builds = [
        _Build("Kubernetes", "10 to 15 minutes the first time, then no time", [places.RIG / "build"]),
        _Build("Asterism", "about 5 minutes the first time, then some seconds", [places.SOURCE / "test/build", "ci", "asterism-controller", "kubectl-asterism"]),
    ]
    try:
        failed = _watch(builds, began)
    except BaseException:
        print("\n   ending the builds; nothing that was built is lost: the next start goes on from there", flush=True)
        raise
    finally:
        for build in builds:
            build.end()
    failure = _failure(failed) if failed else None
    for build in builds:
        build.output.close()
    start, end = ("\r", "\033[K") if _TERMINAL else ("", "")
    if failure:
        print(start, end=end, flush=True)
        raise failure
    print(f"{start}   programs: {time.monotonic() - began:.1f} s{end}", flush=True)


def _watch(builds, began):
    """Returns when all are done, or with the first that failed: the other need not go on."""
    told = began if _TERMINAL else began - _PIPE_TICK_S + 3
    while True:
        running = [build for build in builds if build.process.poll() is None]
        failed = next((build for build in builds if build.process.returncode), None)
        if failed or not running:
            return failed
        time.sleep(0.2)
        if time.monotonic() - told < (_TERMINAL_TICK_S if _TERMINAL else _PIPE_TICK_S):
            continue
        told = time.monotonic()
        for build in running if not _TERMINAL else running[int(told / 3) % len(running):][:1]:
            line = f"   building {build.name}, {told - began:.0f} s, {build.usual} | {build.last_line()}"
            print(f"\r{line[:_LINE]}\033[K" if _TERMINAL else line, end="" if _TERMINAL else "\n", flush=True)


def _failure(build):
    lines = build.text().strip().splitlines()
    # Both builds end with "remedy: ..." where they know one.
    remedy = next((line.removeprefix("remedy: ") for line in reversed(lines) if line.startswith("remedy: ")), None)
    text = "\n".join(line for line in lines[-25:] if not line.startswith("remedy: "))
    return RigError(f"building {build.name} failed:\n{text}", remedy or "the lines above say what; start again to go on from there")
