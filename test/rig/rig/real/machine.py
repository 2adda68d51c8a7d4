"""Whether real nodes can run on this machine. Each reason against it comes with what to do about it."""

import os
import shutil
import subprocess
from pathlib import Path

from rig import orphans, places
from rig.errors import RigError
from rig.real import cgroups

CNI_FOLDER = Path("/usr/lib/cni")
_CNI_PLUGINS = ("ptp", "host-local", "loopback")
_PROGRAMS = {"runc": "runc", "nft": "nftables", "ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux",
             "pivot_root": "util-linux", "hostname": "hostname", "mount": "mount"}
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
_INSTALL = "cmake/install-packages --real"
# (what it is for, remedy, commands in a network namespace that goes with them)
_KERNEL_NEEDS = (
    ("a bridge", "load it: modprobe bridge", "ip link add probe0 type bridge"),
    ("pairs of virtual interfaces", "load it: modprobe veth", "ip link add probe1 type veth peer name probe2"),
    ("nftables with address translation, for kube-proxy", "load it: modprobe nf_tables nft_chain_nat; a kernel without it cannot run services",
     "nft 'add table ip probe; add chain ip probe nat { type nat hook postrouting priority 100; }; add map ip probe m { type ipv4_addr : verdict; };"
     " add rule ip probe nat ct state new fib daddr type local masquerade'"),
    ("the token bucket filter, which slows links", "load it: modprobe sch_tbf", "ip link set lo up && tc qdisc add dev lo root tbf rate 1mbit burst 32k latency 50ms"),
)
# Measured: 8 for the control plane, 9 for each node. 128 are usual where nobody has raised it.
_INOTIFY = Path("/proc/sys/fs/inotify/max_user_instances")
_INOTIFY_CONTROL_PLANE, _INOTIFY_NODE = 10, 10


def which(name):
    return shutil.which(name, path=_PATH)


def check(node_count):
    """Raises for the first thing that is missing for so many nodes."""
    if os.geteuid() != 0:
        raise RigError("real nodes need root: namespaces, control groups and mounts", "run it as root, or take --profile scale, which simulates nodes")
    missing = sorted({package for program, package in _PROGRAMS.items() if which(program) is None})
    if any(not (CNI_FOLDER / name).exists() for name in _CNI_PLUGINS):
        missing.append("containernetworking-plugins")
    if missing:
        raise RigError(f"programs for real nodes are missing: {', '.join(missing)}", f"install them: {_INSTALL}")
    _check_namespaces()
    for what, remedy, commands in _KERNEL_NEEDS:
        done = _run("unshare", "--net", "sh", "-c", commands)
        if done.returncode != 0:
            raise RigError(f"the kernel of this machine lacks {what}: {done.stderr.strip()[-300:]}", remedy)
    cgroups.check()
    _check_overlay()
    if not Path("/dev/shm").is_dir() or not Path("/dev/kmsg").exists():
        raise RigError("/dev/shm or /dev/kmsg is missing, which processes of pods and the kubelet need", "in a container start it with --privileged")
    instances = int(_INOTIFY.read_text(encoding="ascii"))
    needed = _INOTIFY_CONTROL_PLANE + node_count * _INOTIFY_NODE
    if instances < needed:
        raise RigError(f"this machine allows {instances} inotify instances, {node_count} real nodes need about {needed}",
                       f"sysctl fs.inotify.max_user_instances={4 * needed}")


def _run(*command):
    return subprocess.run(command, env={"PATH": _PATH}, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def _check_namespaces():
    done = _run("unshare", "--mount", "--net", "--uts", "--ipc", "--cgroup", "--pid", "--fork", "--propagation", "private", "true")
    if done.returncode != 0:
        raise RigError(f"namespaces cannot be made here: {done.stderr.strip()}",
                       "in a container start it with --privileged; else the kernel needs CONFIG_NAMESPACES with all kinds")


def _check_overlay():
    """Where the layers of containers will lie."""
    folder = orphans.make_folder(f"overlay-probe-{os.getpid()}")
    try:
        for name in ("lower", "upper", "work", "merged"):
            (folder / name).mkdir(parents=True)
        options = ",".join(f"{name}dir={folder / name}" for name in ("lower", "upper", "work"))
        done = _run("unshare", "--mount", "--propagation", "private", "mount", "-t", "overlay", "overlay", "-o", options, str(folder / "merged"))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if done.returncode != 0:
        raise RigError(f"no overlay can be mounted in {places.root()}: {done.stderr.strip()[-300:]}",
                       "set ASTERISM_RIG_ROOT to a folder on ext4 or xfs, not on an overlay or a network file system")
