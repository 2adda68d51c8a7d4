"""Hurts real nodes and mends them: the link, the whole machine, single programs. For tests of faults."""

import signal
import subprocess

from rig import processes, state
from rig.errors import USAGE, RigError
from rig.real import network, nodes

MACHINE_ACTIONS = ("cut", "join", "slow", "fast", "pause", "resume", "kill", "start", "load", "run", "status")
PROGRAM_ACTIONS = ("kill", "start", "restart", "pause", "resume")
_LOCK_WAIT_S = 120.0


def real_nodes(rig_name):
    rig = state.Rig(rig_name)
    settings = nodes.settings_of(rig.load_complete())
    if settings is None:
        raise RigError(f"the rig {rig_name!r} has no real nodes", "start one: test/rig/up --profile real", USAGE)
    return nodes.RealNodes(rig, settings)


def control(rig_name, node, action, arguments):
    """Does `action` and returns what is true afterwards, in words, a line for each node."""
    there = real_nodes(rig_name)
    names = there.settings.names()
    if node != "all" and node not in names:
        raise RigError(f"the rig {rig_name!r} has no real node {node!r}", f"it has {', '.join(names)}, or say `all`", USAGE)
    chosen = names if node == "all" else [node]
    with there.rig.lock(wait_s=_LOCK_WAIT_S):
        if action == "load":
            there.import_images(chosen, arguments)
            return [f"{name}: {len(arguments)} images loaded" for name in chosen]
        return [f"{name}: {_one(there, name, action, arguments)}" for name in chosen]


def _one(there, name, action, arguments):
    if action == "slow":
        return _slow(there, name, arguments[0])
    if arguments:
        return _program(there, name, arguments[0], action)
    return _MACHINE[action](there, name)


def run_inside(rig_name, node, command):
    """Runs a command as a program of the node would run. Returns its exit code."""
    there = real_nodes(rig_name)
    if there.holder_pid(node) is None:
        raise RigError(f"the node {node} is off", f"test/rig/node {rig_name} {node} start")
    pid = there.holder_pid(node)
    # The holder has made the namespace of processes, but is not in it.
    return subprocess.run(["nsenter", f"--target={pid}", "--mount", "--net", "--uts", "--ipc", "--cgroup", f"--pid=/proc/{pid}/ns/pid_for_children",
                           "--", *command], env=nodes.environment(inside=True), check=False).returncode


def _cut(there, name):
    network.set_link(there.number(name), False, there.switch_pid())
    return "cut off"


def _join(there, name):
    network.set_link(there.number(name), True, there.switch_pid())
    return "joined"


def _slow(there, name, rate):
    network.slow(there.number(name), rate, there.switch_pid(), _running(there, name))
    return f"slowed to {rate}"


def _fast(there, name):
    network.unslow(there.number(name), there.switch_pid(), _running(there, name))
    return "full speed"


def _running(there, name):
    pid = there.holder_pid(name)
    if pid is None:
        raise RigError(f"the node {name} is off", f"test/rig/node {there.rig.name} {name} start")
    return pid


def _pause(there, name):
    _running(there, name)
    there.group(name).freeze()
    return "paused"


def _resume(there, name):
    _running(there, name)
    there.group(name).thaw()
    return "resumed"


def _kill(there, name):
    if there.holder_pid(name) is None:
        return "was off"
    there.kill(name)
    return "off"


def _start(there, name):
    if there.holder_pid(name) is not None:
        return "was already on"
    there.boot([name])
    if there.number(name) == 0:
        there.route_from_machine()
    there.start_agents([name])
    return "started"


def status(there, name):
    """(words, whether all is as after `up`)."""
    if there.holder_pid(name) is None:
        return "off", False
    words = []
    if there.group(name).is_frozen():
        words.append("paused")
    if network.is_cut(there.number(name), there.switch_pid()):
        words.append("cut off")
    rate = network.rate(there.number(name), there.switch_pid())
    if rate:
        words.append(f"slowed to {rate}")
    for program in nodes.NODE_PROGRAMS:
        pid = processes.running_pid(there.program_pid_file(name, program))
        if pid is None:
            words.append(f"{program} does not run")
        elif processes.is_paused(pid):
            words.append(f"{program} is paused")
    return ", ".join(words) or "runs", not words


_MACHINE = {"cut": _cut, "join": _join, "fast": _fast, "pause": _pause, "resume": _resume, "kill": _kill, "start": _start,
            "status": lambda there, name: status(there, name)[0]}


def _program(there, name, program, action):
    _running(there, name)
    if there.group(name).is_frozen():
        raise RigError(f"the node {name} is paused: its programs take no signal", f"test/rig/node {there.rig.name} {name} resume")
    pid_file = there.program_pid_file(name, program)
    if action in ("pause", "resume"):
        if not processes.send(pid_file, signal.SIGSTOP if action == "pause" else signal.SIGCONT):
            raise RigError(f"{program} of {name} does not run", f"test/rig/node {there.rig.name} {name} start {program}")
        return f"{program} {action}d"
    if action in ("kill", "restart"):
        processes.kill(pid_file)
    if action in ("start", "restart"):
        if processes.running_pid(pid_file) is not None:
            return f"{program} was already running"
        there.start_program(name, program)
        if program == "containerd":
            there.await_runtime(name)
    return f"{program} " + {"kill": "killed", "start": "started", "restart": "restarted"}[action]
