"""What the checks stand on: run commands of the rig, read rig.env, wait for a condition, count what held."""

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

from rig import places
from rig.api_client import ApiClient, ApiError

_POLL_S = 0.05


class Failed(Exception):
    """A check that does not hold."""


class Harness:
    """Runs commands with rigs below `root`, so that the rigs of other people and tests are left alone."""

    def __init__(self, root):
        self.root = Path(root)
        self.passed = 0
        self.failed = 0
        self._environment = {**os.environ, "ASTERISM_RIG_ROOT": str(root)}

    def check(self, title, body):
        began = time.monotonic()
        try:
            detail = body()
            self.passed += 1
            verdict = "ok  "
        except (Failed, ApiError, OSError, subprocess.TimeoutExpired) as error:
            detail = error
            self.failed += 1
            verdict = "FAIL"
        print(f"{verdict} {title} ({time.monotonic() - began:.1f} s){f': {detail}' if detail else ''}", flush=True)

    def run(self, *command, expect=0, timeout_s=180, **environment):
        """Runs a command of the rig from a foreign working directory. Returns its output, both streams together."""
        done = subprocess.run(
            [places.SOURCE / command[0], *command[1:]], cwd="/", env={**self._environment, **environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s)
        if done.returncode != expect:
            raise Failed(f"{' '.join(command)}: exit code {done.returncode}, not {expect}: {done.stdout.strip()[-1500:]}")
        return done.stdout

    def start(self, *command):
        return subprocess.Popen(
            [places.SOURCE / command[0], *command[1:]], cwd="/", env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def folder(self, name):
        return self.root / f"asterism-rig-{os.getuid()}-{name}"

    def environment(self, name):
        """Variables of rig.env, read as a shell reads them."""
        variables = {}
        for line in (self.folder(name) / "rig.env").read_text(encoding="utf-8").splitlines():
            word, assignment = shlex.split(line)
            require(word == "export", f"rig.env has a line that is no export: {line}")
            key, _, value = assignment.partition("=")
            variables[key] = value
        return variables

    def client(self, name):
        variables = self.environment(name)
        return ApiClient(variables["ASTERISM_RIG_API_URL"], variables["ASTERISM_RIG_CA"], variables["ASTERISM_RIG_ADMIN_CERT"],
                         variables["ASTERISM_RIG_ADMIN_KEY"])

    def processes(self):
        """Pids of all processes whose command line names a rig below the root of this test."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                try:
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if str(self.root).encode() + b"/asterism-rig-" in line:
                    found.append(int(entry.name))
        return found

    def require_nothing_left(self, name):
        require(not self.folder(name).exists(), f"directory stays: {self.folder(name)}")
        left = self.processes()
        require(not left, f"processes stay: {left}")


def require(condition, message):
    if not condition:
        raise Failed(message)


def wait_until(condition, what, timeout_s=20.0):
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        require(time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}")
        time.sleep(_POLL_S)


def kill_9(process):
    process.send_signal(signal.SIGKILL)
    process.wait()
