"""The control groups of real nodes, in every hierarchy of the machine: version 1, version 2 and both beside each other.

A rig has one group, asterism-rig-ID, with one group for each node in it. The node's own programs are in the group `system` of
the node, pods below `kubepods`, which the kubelet makes; version 2 allows no processes beside groups with controllers.
"""

import contextlib
import errno
import os
import time
from dataclasses import dataclass
from pathlib import Path

from rig.errors import RigError

_SYSTEM = "system"
_POLL_S = 0.01
_REMOVE_TIMEOUT_S = 20.0
_FREEZE_TIMEOUT_S = 10.0
_NEEDED = ("cpu", "cpuset", "memory", "pids")
_NEEDED_V1 = (*_NEEDED, "devices", "freezer")
# What a mount shows beside the names of controllers.
_NO_CONTROLLERS = ("rw", "ro", "xattr", "nosuid", "nodev", "noexec", "relatime", "clone_children", "cpuset_v2_mode")


@dataclass(frozen=True)
class Hierarchy:
    path: Path
    version: int
    options: str  # for mount(2), version 1 only
    controllers: tuple


def hierarchies():
    found = []
    for line in Path("/proc/self/mountinfo").read_text(encoding="ascii").splitlines():
        left, _, right = line.partition(" - ")
        kind, _source, options = right.split(" ", 2)
        path = Path(left.split()[4])
        if kind == "cgroup2":
            controllers = (path / "cgroup.controllers").read_text(encoding="ascii").split()
            found.append(Hierarchy(path, 2, "", tuple(controllers)))
        elif kind == "cgroup":
            names = [word for word in options.split(",") if word not in _NO_CONTROLLERS and not word.startswith("release_agent=")]
            controllers = tuple(word for word in names if not word.startswith("name="))
            found.append(Hierarchy(path, 1, ",".join(names if controllers else ["none", *names]), controllers))
    return list({hierarchy.path: hierarchy for hierarchy in found}.values())


def check():
    """Fails where the machine lacks a controller that nodes need, or lets nobody make groups."""
    found = hierarchies()
    there = {name for hierarchy in found for name in hierarchy.controllers}
    version_1 = any(hierarchy.version == 1 and hierarchy.controllers for hierarchy in found)
    missing = [name for name in (_NEEDED_V1 if version_1 else _NEEDED) if name not in there]
    if missing:
        raise RigError(f"control groups are missing on this machine: {', '.join(missing)}",
                       "mount them: mount -t cgroup2 none /sys/fs/cgroup; in a container start it with --privileged --cgroupns=host")
    for hierarchy in found:
        probe = hierarchy.path / f"asterism-rig-probe-{os.getpid()}"
        try:
            probe.mkdir()
            probe.rmdir()
        except OSError as error:
            raise RigError(f"no control group can be made in {hierarchy.path}: {error.strerror}",
                           "run on the machine itself, or in a container with --privileged --cgroupns=host") from None


def _write(path, text):
    path.write_text(text, encoding="ascii")


def _make(hierarchy, path):
    path.mkdir(exist_ok=True)
    if "cpuset" in hierarchy.controllers and hierarchy.version == 1:
        for name in ("cpuset.cpus", "cpuset.mems"):
            _write(path / name, (path.parent / name).read_text(encoding="ascii"))


def _enable(hierarchy, path):
    """Version 2: groups below `path` may use the controllers."""
    if hierarchy.version == 2:
        for name in hierarchy.controllers:
            with contextlib.suppress(OSError):  # one that a hierarchy of version 1 has taken meanwhile
                _write(path / "cgroup.subtree_control", f"+{name}")


class NodeGroup:
    def __init__(self, rig_group, node):
        self._rig_group = rig_group
        self._node = node

    def _path(self, hierarchy):
        return hierarchy.path / self._rig_group / self._node

    def make(self):
        for hierarchy in hierarchies():
            path = self._path(hierarchy)
            _enable(hierarchy, hierarchy.path)
            _make(hierarchy, path.parent)
            _enable(hierarchy, path.parent)
            _make(hierarchy, path)
            _make(hierarchy, path / _SYSTEM)

    def add_at_top(self, pid):
        """For the process whose cgroup namespace then begins here."""
        for hierarchy in hierarchies():
            _write(self._path(hierarchy) / "cgroup.procs", str(pid))

    def add(self, pid):
        for hierarchy in hierarchies():
            _write(self._path(hierarchy) / _SYSTEM / "cgroup.procs", str(pid))

    def enable_controllers(self):
        """Once nothing is at the top any more."""
        for hierarchy in hierarchies():
            _enable(hierarchy, self._path(hierarchy))

    def _freezer(self):
        """(file, frozen, thawed, file that tells, what it tells when frozen)."""
        for hierarchy in hierarchies():
            if hierarchy.version == 1 and "freezer" in hierarchy.controllers:
                file = self._path(hierarchy) / "freezer.state"
                return file, "FROZEN", "THAWED", file, "FROZEN"
        for hierarchy in hierarchies():
            if hierarchy.version == 2:
                path = self._path(hierarchy)
                return path / "cgroup.freeze", "1", "0", path / "cgroup.events", "frozen 1"
        raise RigError("no control group can stop processes on this machine")

    def is_frozen(self):
        _, _, _, tells, word = self._freezer()
        with contextlib.suppress(FileNotFoundError):
            return word in tells.read_text(encoding="ascii")
        return False

    def freeze(self):
        """All processes of the node and of its pods stop at once and see nothing of it, as in a machine that is suspended."""
        file, frozen, _, _, _ = self._freezer()
        _write(file, frozen)
        deadline = time.monotonic() + _FREEZE_TIMEOUT_S
        while not self.is_frozen():
            if time.monotonic() > deadline:
                self.thaw()
                raise RigError(f"the processes of {self._node} do not stop within {_FREEZE_TIMEOUT_S:.0f} s")
            time.sleep(_POLL_S)

    def thaw(self):
        file, _, thawed, _, _ = self._freezer()
        with contextlib.suppress(FileNotFoundError):
            _write(file, thawed)

    def pids(self):
        """Of all processes of the node, pods included."""
        found = set()
        for hierarchy in hierarchies():
            for file in self._path(hierarchy).rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    found.update(int(word) for word in file.read_text(encoding="ascii").split())
        return found

    def remove(self):
        _remove([self._path(hierarchy) for hierarchy in hierarchies()])


def node_groups(rig_group):
    names = {path.name for hierarchy in hierarchies() for path in (hierarchy.path / rig_group).glob("*") if path.is_dir()}
    return [NodeGroup(rig_group, name) for name in sorted(names)]


def remove(rig_group):
    """All groups of a rig whose processes have been told to end."""
    _remove([hierarchy.path / rig_group for hierarchy in hierarchies()])


def _remove(tops):
    deadline = time.monotonic() + _REMOVE_TIMEOUT_S
    for top in tops:
        while top.exists():
            # From the leaves up; a group is busy until its last process has gone.
            for folder, _, _ in os.walk(top, topdown=False):
                try:
                    os.rmdir(folder)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    if error.errno != errno.EBUSY and error.errno != errno.ENOTEMPTY:
                        raise
            if top.exists():
                if time.monotonic() > deadline:
                    raise RigError(f"a control group does not become empty: {top}", f"processes are left in it: find {top} -name cgroup.procs | xargs cat")
                time.sleep(_POLL_S)
