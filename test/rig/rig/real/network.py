"""The network of real nodes: a switch (a bridge in a network namespace of its own), a link to each node and one to this machine.

No namespace has a route to the outside: a packet to an address that nobody has ends at the switch. Pods reach each other by routes
between the nodes; this machine reaches nodes and pods directly, and services through the first node.
"""

import re
import subprocess

from rig.errors import USAGE, RigError

_BRIDGE = "bridge"
_UPLINK = "machine"
_BURST_S = 0.01
_MIN_BURST_BYTES = 16 * 1024
_UNITS = {"kbit": 1e3, "mbit": 1e6, "gbit": 1e9, "bit": 1.0}


def _ip(lines, pid=None):
    """Runs lines of `ip -batch`, in the network namespace of `pid`."""
    inside = ["nsenter", f"--net=/proc/{pid}/ns/net"] if pid else []
    done = subprocess.run([*inside, "ip", "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RigError(f"the network of the nodes could not be made: {done.stderr.strip()}", "test/rig/up --check says what this machine lacks")


def make_switch(plan, interface, pid):
    """Needs `addresses.choosing`."""
    _ip([f"link add {_BRIDGE} type bridge", f"link set {_BRIDGE} up", "link set lo up", f"addr add {plan.switch}/16 dev {_BRIDGE}"], pid)
    _ip([f"link add {interface} type veth peer name {_UPLINK} netns {pid}",
         # All of the range is here, so that no packet to it ever takes the way to the outside.
         f"addr add {plan.host}/16 dev {interface}", f"link set {interface} up"])
    _ip([f"link set {_UPLINK} master {_BRIDGE}", f"link set {_UPLINK} up"], pid)


def port(number):
    """Of the switch, where the link of a node ends."""
    return f"node{number}"


def join_node(plan, number, count, switch_pid, node_pid):
    here = port(number)
    _ip([f"link add {here} type veth peer name eth0 netns {node_pid}", f"link set {here} master {_BRIDGE}", f"link set {here} up"], switch_pid)
    others = [f"route replace {plan.pods(other)} via {plan.node(other)}" for other in range(count) if other != number]
    _ip(["link set lo up", f"addr add {plan.node(number)}/24 dev eth0", "link set eth0 up",
         # kube-proxy changes the address before the packet leaves; without a route it would not come so far.
         f"route replace {plan.services} dev eth0", *others], node_pid)


def leave(number, switch_pid):
    """Of a node that is gone: the kernel takes the link away, but not at once."""
    subprocess.run(["nsenter", f"--net=/proc/{switch_pid}/ns/net", "ip", "link", "delete", port(number)],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def route_from_machine(plan, count, interface, switch_pid):
    pods = [(plan.pods(number), plan.node(number)) for number in range(count)]
    services = [(plan.services, plan.node(0))]
    _ip([f"route replace {target} via {way} dev {interface}" for target, way in pods + services])
    # CoreDNS answers pods.
    _ip([f"route replace {target} via {way} dev {_BRIDGE}" for target, way in pods], switch_pid)


def set_link(number, up, switch_pid):
    """Cuts a node off, or joins it again: nothing passes in either direction."""
    _ip([f"link set {port(number)} {'up' if up else 'down'}"], switch_pid)


def is_cut(number, switch_pid):
    done = subprocess.run(["nsenter", f"--net=/proc/{switch_pid}/ns/net", "ip", "-o", "link", "show", port(number)],
                          capture_output=True, text=True, check=False)
    return "state DOWN" in done.stdout or done.returncode != 0


def bits_per_second(text):
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(bit|kbit|mbit|gbit)", text.lower())
    if not match or float(match[1]) <= 0:
        raise RigError(f"not a rate: {text!r}", "give bits per second with a unit, for example 512kbit, 10mbit, 1gbit", USAGE)
    return float(match[1]) * _UNITS[match[2]]


def _traffic(pid, *arguments, check=True):
    done = subprocess.run(["nsenter", f"--net=/proc/{pid}/ns/net", "tc", "qdisc", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise RigError(f"the link cannot be slowed: tc qdisc {' '.join(arguments)}: {done.stderr.strip()}", "the kernel needs CONFIG_NET_SCH_TBF")
    return done.stdout


def slow(number, rate, switch_pid, node_pid):
    """Both directions of a node's link get `rate` at most; a packet waits 100 ms for its turn, then it is dropped."""
    bits = bits_per_second(rate)
    burst = max(_MIN_BURST_BYTES, int(bits / 8 * _BURST_S))
    for pid, interface in ((switch_pid, port(number)), (node_pid, "eth0")):
        _traffic(pid, "replace", "dev", interface, "root", "tbf", "rate", f"{bits:.0f}bit", "burst", str(burst), "latency", "100ms")


def unslow(number, switch_pid, node_pid):
    for pid, interface in ((switch_pid, port(number)), (node_pid, "eth0")):
        _traffic(pid, "delete", "dev", interface, "root", check=False)


def rate(number, switch_pid):
    """As tc writes it; None where the link has its full speed."""
    match = re.search(r"tbf .* rate (\S+)", _traffic(switch_pid, "show", "dev", port(number), check=False))
    return match[1] if match else None
