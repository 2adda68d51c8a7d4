"""Starts programs inside the namespaces of a node.

A program is in the node's namespace of processes, and so ends with the first process of it. Its pid file, which holds the pid that this machine
knows it by, is written before it becomes the program, as for all programs of a rig.
"""

import ctypes
import os

from rig import processes

_CLONE_NEWPID = 0x20000000
# Mounts last: they take the path of the others away.
_KINDS = ("uts", "ipc", "net", "cgroup", "mnt")


def _setns(descriptor, kind=0):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, kind) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


def start_inside(holder_pid, group, argv, environment, log, pid_file):
    """Starts `argv` in the namespaces of `holder_pid` and in its control group. Paths are those of the node."""
    folder = f"/proc/{holder_pid}/ns"
    descriptors = [os.open(f"{folder}/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in _KINDS]
    pid_namespace = os.open(f"{folder}/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)

    def enter():
        # Only a child of the process that joins is in the namespace of processes.
        _setns(pid_namespace, _CLONE_NEWPID)
        reader, writer = os.pipe()
        child = os.fork()
        if child:
            code = 1
            try:
                processes.write_pid(pid_file, child)
                group.add(child)
                os.write(writer, b"+")
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        if os.read(reader, 1) != b"+":
            os._exit(1)
        os.close(reader)
        for descriptor in descriptors:
            _setns(descriptor)
        os.chdir("/")

    try:
        starter = processes.start(argv, environment, None, log, pid_file, enter)
    finally:
        for descriptor in (*descriptors, pid_namespace):
            os.close(descriptor)
    processes.await_end(starter)
