"""What a running demo leaves on the machine, so that `stop` finds it and a second demo does not start: a directory of its own
for the controller (processes, logs, configuration) beside the rig named `demo`.

The lock is on the directory, held while a demo starts or is taken down. Processes are known as in the rig: by pid, start time
and boot, never by name.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time

from harness import places

from rig import components, places as rig_places, processes, readiness, state
from rig.errors import ALREADY_RUNNING, RigError

RIG = "demo"
REAL_RIG = "demo-real"
CONTROLLER_PID = "controller.pid"
_STOP_GRACE_S = 5.0
_CLEANUP_S = 60.0
_LOCK_TRIES = 100
_STARTING = "starting"    # pid of the command that starts it


class Home:
    def __init__(self):
        self.folder = rig_places.root() / f"asterism-demo-{os.getuid()}"
        self.rig = state.Rig(RIG)

    def __truediv__(self, part):
        return self.folder / part

    def complete(self):
        return (self / "complete").exists() and self.rig.load().get("complete", False)

    def being_started(self):
        return processes.running_pid(self / _STARTING) is not None

    def check_alive(self):
        """Fails where a part of a demo that was complete has ended although nobody asked it to."""
        ended = self.rig.dead_components(self.rig.load())
        if processes.running_pid(self / CONTROLLER_PID) is None:
            ended.append("asterism-controller")
        if ended:
            raise RigError(f"the demo is broken: {', '.join(ended)} ended", "make demo-stop, then make demo")

    def check_answers(self):
        """Fails where the API server lives and is of no use, for example paused."""
        url = readiness.url_of(self.rig.load()["ports"], components.API_SERVER)
        verdict = readiness.ask(url, self.rig / "certificates" / "ca.crt")
        if not verdict.ready:
            raise RigError(f"the demo does not answer: {components.API_SERVER}: {verdict.text.strip()}",
                           "test/rig/status --name demo tells what runs; make demo-stop, then make demo, starts anew")

    def pid_files(self):
        return sorted(self.folder.glob("*.pid")) if self.folder.is_dir() else []

    @contextlib.contextmanager
    def starting(self):
        """Held while a demo starts. Refuses where one runs; cleans what one that was killed has left."""
        with self._lock():
            if self.complete():
                self.check_alive()
                raise RigError("a demo is already running on this machine",
                               "look at it: test/demo/demo status; take it down: make demo-stop", ALREADY_RUNNING)
            if self.rig.exists() or any(self.folder.iterdir()):
                print("cleaning up a demo that did not finish")
                self._end_everything()
            processes.write_own_pid(self / _STARTING)
            yield
            (self / _STARTING).unlink()
            (self / "complete").touch()

    @contextlib.contextmanager
    def extending(self):
        """Held while the second half starts. What goes wrong in it leaves the first half up."""
        processes.write_own_pid(self / _STARTING)
        try:
            yield
        finally:
            (self / _STARTING).unlink(missing_ok=True)

    def take_down(self):
        """Ends and removes everything, whatever state it is in. Returns whether there was anything. Works inside `starting` too."""
        found = self.folder.is_dir() or self.rig.exists() or state.Rig(REAL_RIG).exists()
        starting = processes.running_pid(self / _STARTING)
        if starting not in (None, os.getpid()):
            processes.send(self / _STARTING, signal.SIGTERM)    # it cleans up itself
            processes.wait_gone(self / _STARTING, _CLEANUP_S)
        self._end_everything()
        with contextlib.suppress(FileNotFoundError):
            self.folder.rmdir()
        return found

    def _end_everything(self):
        for pid_file in self.pid_files():
            processes.stop(pid_file, _STOP_GRACE_S)
        # Also ends an `up` that is at work.
        for name in (RIG, REAL_RIG):
            subprocess.run([places.RIG / "down", "--name", name], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        if rig_places.is_own(self.folder):
            for entry in self.folder.iterdir():
                entry.unlink()

    @contextlib.contextmanager
    def _lock(self):
        for _ in range(_LOCK_TRIES):
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not rig_places.is_own(self.folder):
                raise RigError(f"not a directory of yours: {self.folder}", "remove it, or set ASTERISM_RIG_ROOT to another folder")
            try:
                handle = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            except FileNotFoundError:
                continue  # just removed by a `stop`
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield
                return
            except BlockingIOError:
                raise RigError("another demo is being started on this machine", "wait for it, or end it: make demo-stop", ALREADY_RUNNING) from None
            finally:
                os.close(handle)
            time.sleep(0.01)
        raise RigError(f"{self.folder} cannot be locked")
