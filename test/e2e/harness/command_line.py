"""kubectl-asterism as a process: runs one command line against the rig and says how it ended."""

import os
import pty
import select
import signal
import statistics
import subprocess
import time
from dataclasses import dataclass

from harness import places
from harness.failure import Failed, require_equal

_TIMEOUT_S = 20.0


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    error: str
    seconds: float


class CommandLine:
    """`kubeconfig`: whose rights it has; default: those of the rig's administrator."""

    def __init__(self, cluster, kubeconfig=None):
        self._program = program()
        self._environment = cluster.rig.environment()
        self._environment.pop("ASTERISM_SERVER", None)
        if kubeconfig:
            self._environment["KUBECONFIG"] = str(kubeconfig)
        # Words that ask the controller itself. Its certificate has the name localhost.
        self.direct = ("--server", f"https://localhost:{cluster.controller.ports['metrics']}",
                       "--certificate-authority", cluster.rig["ASTERISM_EXTENDER_CA"])

    def run(self, *words, code=0):
        """Requires that it ends with `code`, and that an error is one line."""
        ended = self._run(words)
        shown = f"kubectl-asterism {' '.join(map(str, words))}"
        require_equal(ended.code, code, f"exit code of `{shown}` ({ended.out[-500:]} {ended.error[-500:]})")
        require_equal(ended.error.count("\n"), 1 if code in (1, 2) else 0, f"lines of the error of `{shown}`: {ended.error!r}")
        return ended

    def attempt(self, *words):
        """(exit code, what it said), whatever that is."""
        ended = self._run(words)
        return ended.code, (ended.error or ended.out).strip()

    def _run(self, words):
        began = time.monotonic()
        done = subprocess.run([self._program, *map(str, words)], env=self._environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=_TIMEOUT_S, check=False)
        return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def median_ms(self, *words, code=0, times=5):
        return 1000 * statistics.median(self.run(*words, code=code).seconds for _ in range(times))

    def on_terminal(self, *words, interrupt_at=None, timeout_s=_TIMEOUT_S):
        """Runs it on a terminal, presses Ctrl-C once `interrupt_at` was drawn; the exit code and everything that was drawn."""
        child, terminal = pty.fork()
        if child == 0:
            os.execve(self._program, [str(self._program), *words], {**self._environment, "TERM": "xterm"})
        drawn, deadline, pressed = "", time.monotonic() + timeout_s, False
        try:
            while time.monotonic() < deadline:
                if select.select([terminal], [], [], 0.1)[0]:
                    try:
                        drawn += os.read(terminal, 65536).decode("utf-8", errors="replace")
                    except OSError:          # how a terminal says that its program has ended
                        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), drawn
                if interrupt_at and interrupt_at in drawn and not pressed:
                    os.write(terminal, b"\x03")
                    pressed = True
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        finally:
            os.close(terminal)
        raise Failed(f"`kubectl-asterism {' '.join(words)}` does not {'end' if pressed or not interrupt_at else f'show {interrupt_at!r}'}: {drawn[-500:]!r}")


def program():
    chosen = os.environ.get("ASTERISM_KUBECTL") or places.SOURCE / "build/ci/cli/kubectl-asterism"
    if not os.access(chosen, os.X_OK):
        raise Failed(f"there is no program {chosen}: build it with test/build ci kubectl-asterism")
    return chosen
