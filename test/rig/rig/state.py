"""What a rig knows about itself, in its directory: state.json for these scripts, rig.env for tests and people.

  state.json      ports from the moment they are chosen; command lines; `complete` once `up` has ended well
  rig.env         the same for shells and tests: `export NAME='value'` lines; there only when the rig is ready
  up.pid          the `up` that works on it now
  owner.pid       the process that the rig is for, where `up` was told; see orphans.py
  bin/ certificates/ kubeconfigs/ config/ etcd/ logs/
  run/NAME.pid    process of a component, of a real node (which hangs on it), or of a node's program: NODE.kubelet;  run/NAME.held: stopped on purpose by `component`
"""

import contextlib
import fcntl
import json
import os
import shlex
import shutil
import time

from rig import orphans, places, processes
from rig.errors import ALREADY_RUNNING, RigError
from rig.real import footprint

_STATE_FILE = "state.json"
_ENVIRONMENT_FILE = "rig.env"
_LOCK_POLL_S = 0.05


class Rig:
    def __init__(self, name):
        self.name = name
        self.folder = places.directory(name)

    def __truediv__(self, part):
        return self.folder / part

    def exists(self):
        return places.is_own(self.folder)

    def load(self):
        """State as a dictionary; empty where `up` did not come to writing it."""
        try:
            return json.loads((self / _STATE_FILE).read_text(encoding="utf-8"))
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}

    def load_complete(self):
        """State of a rig that is up, or an error that says how to get one."""
        state = self.load()
        if not state.get("complete"):
            raise RigError(f"no rig named {self.name!r} is up", f"start it: test/rig/up --name {self.name}; `test/rig/status` lists what runs")
        return state

    def save(self, state):
        self._replace(_STATE_FILE, json.dumps(state, indent=1) + "\n")

    def save_environment(self, variables):
        lines = [f"export {name}={shlex.quote(str(value))}\n" for name, value in variables.items()]
        self._replace(_ENVIRONMENT_FILE, "".join(lines))

    def _replace(self, file_name, text):
        temporary = self / f".{file_name}.new"
        temporary.write_text(text, encoding="utf-8")
        os.rename(temporary, self / file_name)

    def pid_file(self, component):
        return self / "run" / f"{component}.pid"

    def held_file(self, component):
        return self / "run" / f"{component}.held"

    def up_pid_file(self):
        return self / "up.pid"

    def owner_file(self):
        return orphans.owner_file(self.folder)

    def log(self, component):
        return self / "logs" / f"{component}.log"

    def dead_components(self, state):
        """Components that ended although nobody asked them to."""
        return [name for name in state.get("components", {})
                if processes.running_pid(self.pid_file(name)) is None and not self.held_file(name).exists()]

    def kill_components(self):
        # All that wrote a pid, not those of the state: it may be older than the processes, or broken.
        footprint.thaw(self.folder)
        pid_files = sorted((self / "run").glob("*.pid"))
        for pid_file in pid_files:
            processes.send(pid_file, 9)
        for pid_file in pid_files:
            processes.kill(pid_file)
        footprint.remove(self.folder)

    def clear(self):
        """Ends all processes of the rig and empties its directory. Needs the lock."""
        self.kill_components()
        for entry in self.folder.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()

    def remove(self):
        self.clear()
        self.folder.rmdir()

    @contextlib.contextmanager
    def lock(self, wait_s=0.0, create=False):
        """Held by whoever changes the rig. The lock is on the directory itself, so nothing is left behind.

        Yields False where the directory does not exist and `create` is false.
        """
        deadline = time.monotonic() + wait_s
        while True:
            if create:
                with contextlib.suppress(FileExistsError):
                    self.folder.mkdir(mode=0o700)
            if not self.exists():
                if create or os.path.lexists(self.folder):
                    raise RigError(f"not a directory of yours: {self.folder}", "choose another --name, or set ASTERISM_RIG_ROOT")
                yield False
                return
            try:
                handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_current(handle):
                    yield True
                    return
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise RigError(
                        f"another command works on the rig {self.name!r} just now",
                        f"wait for it, end it with test/rig/down --name {self.name}, or take another --name", ALREADY_RUNNING) from None
                time.sleep(_LOCK_POLL_S)
            finally:
                os.close(handle)

    def _is_current(self, handle):
        """False where `down` removed the directory between opening and locking it."""
        try:
            found = os.stat(self.folder)
        except FileNotFoundError:
            return False
        opened = os.fstat(handle)
        return (found.st_dev, found.st_ino) == (opened.st_dev, opened.st_ino)


def ports_of_other_rigs(name):
    taken = set()
    for other in places.names():
        if other != name and places.is_own(places.directory(other)):
            taken.update(Rig(other).load().get("ports", {}).values())
    return taken
