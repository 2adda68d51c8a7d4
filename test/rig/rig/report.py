"""Describes the rigs that are there: what runs, what is simulated."""

from rig import components, orphans, places, processes, readiness, state
from rig.real import node_control, nodes


def lines(rig):
    """Returns (lines of text, whether everything runs and is ready)."""
    found = rig.load()
    if not found.get("complete"):
        doing = "is being started" if processes.running_pid(rig.up_pid_file()) else "was never finished (the next `up` or `down` cleans it)"
        return [f"rig {rig.name}: {doing}"], False
    out = [f"rig {rig.name}: profile {found['profile']}, {rig / 'rig.env'}"]
    if orphans.is_orphan(rig.folder):
        out.append("  left by a run that was killed: the next `up`, or `down --orphans`, takes it down")
    healthy = True
    for name in found["components"]:
        text, good = _component(rig, found, name)
        healthy = healthy and good
        out.append(f"  {name:<24}{text}")
    real = nodes.settings_of(found)
    if real:
        there = nodes.RealNodes(rig, real)
        for name in real.names():
            text, good = node_control.status(there, name)
            healthy = healthy and good
            out.append(f"  {name:<24}{text}, {there.plan.node(there.number(name))}")
    out.append(f"  {'extender':<24}{_extender(found)}")
    out += [f"  {line}" for line in _simulated(found)]
    return out, healthy


def _component(rig, found, name):
    url = components.urls(found)[name]
    pid = processes.running_pid(rig.pid_file(name))
    if pid is None:
        return ("stopped on purpose" if rig.held_file(name).exists() else f"DEAD, log: {rig.log(name)}"), False
    about = f"pid {pid}, {processes.resident_mib(pid):.0f} MiB, {url}"
    if processes.is_paused(pid):
        return f"paused, {about}", False
    verdict = readiness.ask(readiness.url_of(found, name), rig / "certificates" / "ca.crt")
    return (f"ready, {about}" if verdict.ready else f"NOT READY, {about}"), verdict.ready


def _extender(found):
    if components.ASTERISM_SCHEDULER not in found["components"]:
        return "none: no asterism-scheduler here, the chart brings one (or --own-scheduler)"
    if not found["extender_url"]:
        return "none (--no-extender)"
    return f"not part of the rig: asterism-scheduler expects one on {found['extender_url']}"


def _simulated(found):
    schedulers = "both schedulers" if components.ASTERISM_SCHEDULER in found["components"] else "the default scheduler"
    real = f"Real: API server, storage, controllers, {schedulers}."
    count = found["node_count"]
    if found.get("real"):
        real = f"{real[:-1]}, {found['real']['count']} nodes with kubelet, containerd, services and DNS."
        if not count:
            return [real, "GPUs: none, until a device plug-in offers some."]
    if not count:
        return [real, "No nodes were created: pods stay Pending until a test creates nodes."]
    if components.KWOK not in found["components"]:
        return [real, f"Simulated: {count:,} nodes are objects only, without kwok: bound pods stay Pending."]
    return [real, f"Simulated: {count:,} nodes with {found['gpus']} GPUs each are simulated by kwok; pods run no program, have no logs, and their addresses answer nobody."]


def all_rigs():
    return [state.Rig(name) for name in places.names() if places.is_own(places.directory(name))]
