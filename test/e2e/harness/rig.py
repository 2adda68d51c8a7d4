"""A rig of this run: brings it up, hurts its parts, takes it down.

The rig and the folder of a run know its process, so that what a killed run leaves is taken down by the next one.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import time

from harness import places
from harness.failure import Failed

from rig import orphans, places as rig_places, programs  # noqa: E402  (on the path through harness.places)

_UP_TIMEOUT_S = 1800     # builds the programs where they are missing
_COMMAND_TIMEOUT_S = 150


class Rig:
    def __init__(self, prefix, nodes, profile="scale", options=()):
        self.name = f"{prefix}-{nodes}-{os.getpid()}"
        self.owner = os.getpid()    # None: the rig is to outlive this process
        self.nodes = nodes
        self.variables = {}
        self._profile = profile
        self._options = [str(option) for option in options]

    def add_options(self, *options):
        self._options += map(str, options)

    def up(self, quiet=True):
        command = [places.RIG / "up", "--name", self.name, "--profile", self._profile, "--nodes", str(self.nodes), *self._options]
        if self.owner:
            command += ["--owner", str(self.owner)]
        output = subprocess.PIPE if quiet else None
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT if quiet else None,
                              text=True, timeout=_UP_TIMEOUT_S, check=False)
        if done.returncode:
            raise Failed(f"the rig did not come up (exit code {done.returncode}):\n{(done.stdout or '').strip()[-3000:]}")
        self.variables = read_environment(rig_places.directory(self.name) / "rig.env")

    def make_scratch(self):
        """A folder for files of this run; it goes with the rig."""
        return orphans.make_folder(self.name)

    def down(self):
        subprocess.run([places.RIG / "down", "--name", self.name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       timeout=_COMMAND_TIMEOUT_S, check=False)
        shutil.rmtree(rig_places.run_folder(self.name), ignore_errors=True)

    def __getitem__(self, variable):
        return self.variables[variable]

    @property
    def gpus_per_node(self):
        return int(self["ASTERISM_RIG_GPUS_PER_NODE"])

    @property
    def nodes_per_supernode(self):
        return int(self["ASTERISM_RIG_NODES_PER_SUPERNODE"])

    def free_ports(self):
        return [int(port) for port in self["ASTERISM_RIG_FREE_PORTS"].split()]

    def component(self, name, action):
        """stop, start, restart, kill, pause or resume a part of the control plane."""
        return self._command("component", name, action)

    @contextlib.contextmanager
    def paused(self, name):
        self.component(name, "pause")
        try:
            yield
        finally:
            self.component(name, "resume")

    def restart_clients(self):
        """After a longer time without API server: the programs written in Go would look again only after up to 30 s."""
        for name in ("asterism-scheduler", "kwok", "kube-controller-manager"):
            self.component(name, "kill")
            self.component(name, "start")

    def kubeconfig(self, service_account):
        """With a token."""
        return self._command("kubeconfig", "--service-account", service_account).strip()

    def kubeconfig_with_certificate(self, service_account):
        """The same rights, and in the audit log another credential."""
        user = f"system:serviceaccount:{service_account.replace('/', ':')}"
        return self._command("kubeconfig", "--user", user).strip()

    def _command(self, program, *arguments):
        done = subprocess.run([places.RIG / program, *arguments, "--name", self.name], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False)
        if done.returncode:
            raise Failed(f"test/rig/{program} {' '.join(arguments)}: {done.stdout}{done.stderr}".strip())
        return done.stdout

    def environment(self):
        """For programs that are to use this rig: KUBECONFIG and the rig's programs first in PATH."""
        return {**os.environ, **self.variables, "PATH": f"{self['ASTERISM_RIG_BIN']}:{os.environ.get('PATH', '')}"}

    def kubectl(self, *arguments, text=None, check=True):
        return self._tool("kubectl", *arguments, text=text, check=check)

    def helm(self, *arguments):
        return self._tool("helm", *arguments)

    def _tool(self, program, *arguments, text=None, check=True):
        done = subprocess.run([f"{self['ASTERISM_RIG_BIN']}/{program}", *map(str, arguments)], env=self.environment(), input=text,
                              capture_output=True, text=True, timeout=_COMMAND_TIMEOUT_S, check=False)
        if done.returncode < 0:
            raise programs.damaged(f"{self['ASTERISM_RIG_BIN']}/{program}")
        if check and done.returncode:
            raise Failed(f"{program} {' '.join(map(str, arguments))}: {(done.stdout + done.stderr).strip()}")
        return done.stdout


def read_environment(path):
    """Variables of a rig.env, read as a shell reads them."""
    variables = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        _, assignment = shlex.split(line)
        key, _, value = assignment.partition("=")
        variables[key] = value
    return variables


def steadily(action, timeout_s=30.0, retry=(OSError,)):
    """Repeats `action` while the API server cannot be reached."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return action()
        except retry:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
