"""Stops, starts, kills and pauses single components of a running rig, for tests of faults."""

import os
import signal
import time

from rig import bring_up, processes, readiness, state
from rig.errors import USAGE, RigError

ACTIONS = ("stop", "start", "restart", "kill", "pause", "resume")
# kube-controller-manager with open watches needs much longer, and has nothing to lose.
_STOP_GRACE_S = 6.0
_READY_TIMEOUT_S = 120.0
_PAUSE_TIMEOUT_S = 5.0


def control(rig_name, component, action):
    """Does `action` and returns what is true afterwards, in words."""
    rig = state.Rig(rig_name)
    with rig.lock(wait_s=_READY_TIMEOUT_S):
        found = rig.load_complete()
        if component not in found["components"]:
            raise RigError(f"the rig {rig_name!r} has no component {component!r}", f"it has {', '.join(found['components'])}", USAGE)
        return _ACTIONS[action](rig, found, component)


def _stop(rig, _found, component):
    rig.held_file(component).touch()
    if processes.running_pid(rig.pid_file(component)) is None:
        return "was not running"
    by_itself = processes.stop(rig.pid_file(component), _STOP_GRACE_S)
    return "stopped" if by_itself else f"killed: it did not end within {_STOP_GRACE_S:.0f} s"


def _kill(rig, _found, component):
    rig.held_file(component).touch()
    processes.kill(rig.pid_file(component))
    return "killed"


def _start(rig, found, component):
    if processes.running_pid(rig.pid_file(component)) is not None:
        return "was already running"
    bring_up.start_component(rig, component, found["components"][component])
    rig.held_file(component).unlink(missing_ok=True)
    began = time.monotonic()
    readiness.wait(rig, found, component, _READY_TIMEOUT_S)
    return f"ready after {time.monotonic() - began:.1f} s"


def _restart(rig, found, component):
    return f"{_stop(rig, found, component)}, {_start(rig, found, component)}"


def _signal_running(rig, component, number):
    if not processes.send(rig.pid_file(component), number):
        raise RigError(f"{component} does not run", f"test/rig/component {component} start --name {rig.name}")


def _pause(rig, _found, component):
    _signal_running(rig, component, signal.SIGSTOP)
    deadline = time.monotonic() + _PAUSE_TIMEOUT_S
    while not processes.is_paused(processes.running_pid(rig.pid_file(component)) or os.getpid()):
        if time.monotonic() > deadline:
            raise RigError(f"{component} does not stop on SIGSTOP")
        time.sleep(0.005)
    return "paused"


def _resume(rig, _found, component):
    _signal_running(rig, component, signal.SIGCONT)
    return "resumed"


_ACTIONS = {"stop": _stop, "start": _start, "restart": _restart, "kill": _kill, "pause": _pause, "resume": _resume}
