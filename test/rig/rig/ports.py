"""Gives each rig a block of ports on 127.0.0.1, below the range from which the kernel takes ports for connections."""

import contextlib
import errno
import fcntl
import os
import socket
import zlib

from rig.errors import RigError

ADDRESS = "127.0.0.1"
ROLES = ("etcd", "etcd_peer", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "asterism-scheduler", "kwok",
         "extender", *(f"free_{number}" for number in range(8)))
_FIRST = 20000
_BLOCKS = 700


def _is_free(port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # The servers set it too: a port whose last connections are still closing is free for them.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ADDRESS, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
            raise
    return True


def check_loopback():
    """Fails where nothing reaches 127.0.0.1, as in a new network namespace: programs could listen there, and nobody could ask them."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((ADDRESS, _FIRST))    # looks for a route only
        except OSError as error:
            if error.errno not in (errno.ENETUNREACH, errno.EADDRNOTAVAIL):
                raise
            raise RigError("the loopback interface is down", "ip link set lo up") from None


@contextlib.contextmanager
def choosing(root):
    """Held while a rig chooses its ports and writes them down, so that two rigs do not choose the same."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def choose(name, taken, base=None):
    """Returns {role: port}. `taken`: ports of other rigs, also of their parts that do not listen just now."""
    if base is not None:
        block = range(base, base + len(ROLES))
        busy = [port for port in block if port in taken or not _is_free(port)]
        if busy:
            raise RigError(f"ports are taken: {', '.join(map(str, busy))}",
                           f"give another --port-base ({len(ROLES)} ports from there are used), or none to let the rig choose")
        return dict(zip(ROLES, block))
    start = zlib.crc32(f"{os.getuid()}/{name}".encode())
    for offset in range(_BLOCKS):
        first = _FIRST + (start + offset) % _BLOCKS * len(ROLES)
        block = range(first, first + len(ROLES))
        if not any(port in taken for port in block) and all(_is_free(port) for port in block):
            return dict(zip(ROLES, block))
    raise RigError(f"no {len(ROLES)} free ports in a row between {_FIRST} and {_FIRST + _BLOCKS * len(ROLES)}",
                   "end what listens there, or give --port-base")
