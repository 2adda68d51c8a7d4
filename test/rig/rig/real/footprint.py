"""What a rig with real nodes has on the machine outside its folder, and how it goes away: one interface and its control groups.

Both carry names made of the folder of the rig, so that whoever finds the folder finds them, whatever happened to their maker.
All else hangs on processes: mounts, addresses, routes and the other interfaces go with the last process of their namespace.
"""

import hashlib
import os
import subprocess

from rig.real import cgroups

SWITCH = "switch"


def _digest(folder):
    return hashlib.sha256(str(folder).encode()).hexdigest()[:10]


def interface(folder):
    """Between this machine and the switch."""
    return f"rig{_digest(folder)}"


def control_group(folder):
    return f"asterism-rig-{_digest(folder)}"


def node_group(folder, node):
    return cgroups.NodeGroup(control_group(folder), node)


def thaw(folder):
    """What is frozen does not even end."""
    if os.geteuid() != 0:
        return
    for group in cgroups.node_groups(control_group(folder)):
        group.thaw()


def remove(folder):
    """After all processes of the rig were told to end."""
    if os.geteuid() != 0:
        return
    name = interface(folder)
    if os.path.exists(f"/sys/class/net/{name}"):
        subprocess.run(["ip", "link", "delete", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    cgroups.remove(control_group(folder))
