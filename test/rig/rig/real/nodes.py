"""Real nodes of one rig: boots them, starts their programs, imports images. Each step may be done again after a kill."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rig import places, processes, programs, readiness
from rig.errors import RigError
from rig.real import addresses, cgroups, footprint, namespaces, network, node_files

NODE_PROGRAMS = ("containerd", "kubelet", "kube-proxy")
_PROGRAM_FILES = ("containerd", "containerd-shim-runc-v2", "ctr", "kubelet", "kube-proxy")
_BOOT_TIMEOUT_S = 30.0
_POLL_S = 0.02
_IMPORT_TIMEOUT_S = 300.0
_BOOTED = "booted"
# Folders of the cache that nodes see, for volumes that pods mount.
SHARED_FOLDERS = {"pytorch": "/opt/pytorch"}


@dataclass(frozen=True)
class Settings:
    """Of all real nodes of a rig; kept in its state."""
    range_index: int
    count: int
    gpus: int
    nodes_per_supernode: int
    lease_seconds: int
    pci: str = ""  # folder that takes the place of /sys/bus/pci

    @property
    def plan(self):
        return addresses.Plan(self.range_index)

    def names(self):
        return [f"real-{number}" for number in range(self.count)]

    def as_state(self):
        return asdict(self)


def settings_of(state):
    """From the state of a rig; None where it has no real nodes."""
    return Settings(**state["real"]) if state.get("real") else None


class RealNodes:
    def __init__(self, rig, settings):
        self.rig = rig
        self.settings = settings
        self.plan = settings.plan

    # -- the switch --

    def start_switch(self):
        """Needs `addresses.choosing`."""
        pid_file = self.rig.pid_file(footprint.SWITCH)
        processes.start(["unshare", "--net", "sleep", "infinity"], environment(), self.rig.folder, self.rig.log(footprint.SWITCH), pid_file)
        own = os.readlink("/proc/self/ns/net")
        _await(lambda: os.readlink(f"/proc/{self.switch_pid()}/ns/net") != own, "the network namespace of the switch does not appear")
        network.make_switch(self.plan, footprint.interface(self.rig.folder), self.switch_pid())

    def switch_pid(self):
        pid = processes.running_pid(self.rig.pid_file(footprint.SWITCH))
        if pid is None:
            raise RigError(f"the switch of the rig {self.rig.name!r} does not run", f"test/rig/down --name {self.rig.name}, then up again")
        return pid

    def route_from_machine(self):
        network.route_from_machine(self.plan, self.settings.count, footprint.interface(self.rig.folder), self.switch_pid())

    # -- one node --

    def number(self, name):
        return self.settings.names().index(name)

    def folder(self, name):
        return self.rig / "nodes" / name

    def root(self, name):
        return self.folder(name) / "root"

    def group(self, name):
        return footprint.node_group(self.rig.folder, name)

    def holder_pid(self, name):
        """The process on which the whole node hangs; None where it is off."""
        return processes.running_pid(self.rig.pid_file(name))

    def _require_holder(self, name):
        pid = self.holder_pid(name)
        if pid is None:
            raise RigError(f"the node {name} is off", f"test/rig/node {self.rig.name} {name} start")
        return pid

    def program_pid_file(self, name, program):
        return self.rig.pid_file(f"{name}.{program}")

    def labels(self, name):
        return node_files.labels(self.number(name), self.settings.gpus, self.settings.nodes_per_supernode)

    def write_files(self, name, identity):
        node_files.write(self.root(name), self.plan, self.number(name), name, identity, self.settings.lease_seconds)

    def _launch(self, name):
        group = self.group(name)
        group.make()
        for folder in SHARED_FOLDERS:
            (places.cache() / folder).mkdir(parents=True, exist_ok=True)
        (self.folder(name) / _BOOTED).unlink(missing_ok=True)
        config = {
            "name": name, "folder": str(self.folder(name)), "root": str(self.root(name)),
            "group": f"{footprint.control_group(self.rig.folder)}/{name}",
            "hierarchies": [{"path": str(entry.path), "version": entry.version, "options": entry.options} for entry in cgroups.hierarchies()],
            "programs": [(str(programs.locate(program)), f"{node_files.PROGRAMS}/{program}") for program in _PROGRAM_FILES],
            "read_only_folders": [*((str(places.cache() / folder), path) for folder, path in SHARED_FOLDERS.items()),
                                  *([(self.settings.pci, "/sys/bus/pci")] if self.settings.pci else [])],
            "kernel_files": node_files.write_kernel_files(self.root(name)),
        }
        config_file = self.folder(name) / "boot.json"
        config_file.write_text(json.dumps(config, indent=1), encoding="utf-8")
        pid_file = self.rig.pid_file(name)

        def prepare():
            processes.write_own_pid(pid_file)
            group.add_at_top(os.getpid())

        processes.start(
            ["unshare", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--pid", "--fork", "--kill-child", "--propagation", "private",
             sys.executable, "-B", str(Path(__file__).with_name("boot.py")), str(config_file)],
            environment(), self.rig.folder, self.rig.log(name), pid_file, prepare)

    def _join(self, name):
        self._await_boot(name)
        group = self.group(name)
        holder = self._require_holder(name)
        group.add(holder)
        group.enable_controllers()
        network.join_node(self.plan, self.number(name), self.settings.count, self.switch_pid(), holder)

    def _await_boot(self, name):
        def booted():
            if self.holder_pid(name) is None:
                raise RigError(f"the node {name} ended instead of starting; the end of its log:\n{readiness.log_tail(self.rig.log(name))}",
                               "test/rig/up --check says what this machine lacks")
            return (self.folder(name) / _BOOTED).exists()
        _await(booted, f"the node {name} does not start")

    def start_program(self, name, program):
        argv = node_files.command_lines(self.plan, self.number(name), name, self.labels(name))[program]
        namespaces.start_inside(self._require_holder(name), self.group(name), argv, environment(inside=True),
                                self.rig.log(f"{name}.{program}"), self.program_pid_file(name, program))

    def await_runtime(self, name):
        socket = Path(f"/proc/{self._require_holder(name)}/root{node_files.CONTAINERD_SOCKET}")

        def answers():
            if processes.running_pid(self.program_pid_file(name, "containerd")) is None:
                raise RigError(f"containerd of {name} ended; the end of its log:\n{readiness.log_tail(self.rig.log(f'{name}.containerd'))}")
            return socket.exists() and self._inside(name, "version", check=False).returncode == 0
        _await(answers, f"containerd of {name} does not answer")

    def _inside(self, name, *arguments, stdin=subprocess.DEVNULL, check=True):
        """Runs `ctr` of a node."""
        pid = self._require_holder(name)
        command = ["nsenter", f"--target={pid}", "--mount", "--net", "--", f"{node_files.PROGRAMS}/ctr", "--namespace=k8s.io", *arguments]
        done = subprocess.run(command, env=environment(inside=True), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=_IMPORT_TIMEOUT_S, check=False)
        if check and done.returncode != 0:
            raise RigError(f"{name}: ctr {' '.join(arguments)}: {done.stdout.strip()[-1000:]}")
        return done

    def import_image(self, name, archive):
        """`archive`: a tar with an OCI layout."""
        with open(archive, "rb") as handle:
            self._inside(name, "images", "import", "-", stdin=handle)

    def boot(self, names):
        """Nodes that are off, up to the point where containers can run: namespaces, mounts, link, containerd."""
        for step in (self._launch, self._join, lambda name: self.start_program(name, "containerd"), self.await_runtime):
            for name in names:
                step(name)

    def import_images(self, names, archives):
        """The nodes at once, since most of it is waiting for the disk."""
        with ThreadPoolExecutor(max_workers=max(1, len(names))) as pool:
            list(pool.map(lambda name: [self.import_image(name, archive) for archive in archives], names))

    def start_agents(self, names):
        """What makes a booted machine a node of the cluster."""
        for name in names:
            for program in NODE_PROGRAMS[1:]:
                self.start_program(name, program)

    def kill(self, name):
        """As if its power failed: nothing of it runs afterwards. Its disk stays."""
        self.group(name).thaw()
        processes.kill(self.rig.pid_file(name))
        self.group(name).remove()
        network.leave(self.number(name), self.switch_pid())


def environment(inside=False):
    first = f"{node_files.PROGRAMS}:" if inside else ""
    chosen = {variable: os.environ[variable] for variable in ("GOMAXPROCS", "GOGC", "GOMEMLIMIT", "LANG") if variable in os.environ}
    return {"PATH": f"{first}/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", **chosen}


def _await(condition, complaint):
    deadline = time.monotonic() + _BOOT_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RigError(f"{complaint} within {_BOOT_TIMEOUT_S:.0f} s")
        time.sleep(_POLL_S)
