"""The addresses of a rig with real nodes: one /16 of 100.64.0.0/10, the range for networks that nobody routes to the outside.

  .0.1          this machine, where the control plane listens
  .0.2          the switch, where CoreDNS listens
  .0.10 ...     nodes
  .64.0/24 ...  pods, one /24 a node
  .128.0/20     services; .128.1 is `kubernetes`, .128.10 is `kube-dns`
"""

import contextlib
import fcntl
import ipaddress
import json
import os
import subprocess
import zlib
from dataclasses import dataclass

from rig.errors import RigError

_FIRST_OCTET, _FIRST, _COUNT = 100, 64, 64
_NODE_OFFSET = 10
_POD_OFFSET = 64
MAX_NODES = 32


@dataclass(frozen=True)
class Plan:
    index: int  # 0 ... 63

    @property
    def _base(self):
        return f"{_FIRST_OCTET}.{_FIRST + self.index}"

    @property
    def whole(self):
        return f"{self._base}.0.0/16"

    @property
    def host(self):
        return f"{self._base}.0.1"

    @property
    def switch(self):
        return f"{self._base}.0.2"

    def node(self, number):
        return f"{self._base}.0.{_NODE_OFFSET + number}"

    def pods(self, number):
        return f"{self._base}.{_POD_OFFSET + number}.0/24"

    @property
    def all_pods(self):
        return f"{self._base}.{_POD_OFFSET}.0/18"

    @property
    def services(self):
        return f"{self._base}.128.0/20"

    @property
    def api_service(self):
        return f"{self._base}.128.1"

    @property
    def dns_service(self):
        return f"{self._base}.128.10"


@contextlib.contextmanager
def choosing():
    """Held while a rig chooses its range and gives an interface an address of it: rigs of all roots share the machine."""
    folder = os.open("/run", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _taken():
    """Networks that this machine has addresses in or routes to."""
    found = []
    for arguments in (["addr"], ["route", "show", "table", "all"]):
        text = subprocess.run(["ip", "-j", "-4", *arguments], capture_output=True, text=True, check=True).stdout
        for entry in json.loads(text or "[]"):
            names = [entry["dst"]] if "dst" in entry else [f"{a['local']}/{a['prefixlen']}" for a in entry.get("addr_info", [])]
            found += [ipaddress.ip_network(name, strict=False) for name in names if name != "default"]
    return found


def choose(key):
    """A range that this machine does not use. Needs `choosing`."""
    taken = _taken()
    start = zlib.crc32(key.encode())
    for offset in range(_COUNT):
        plan = Plan((start + offset) % _COUNT)
        if not any(ipaddress.ip_network(plan.whole).overlaps(network) for network in taken):
            return plan
    raise RigError(f"no free /16 in {_FIRST_OCTET}.{_FIRST}.0.0/10: `ip route` shows what uses it", "take other rigs down: test/rig/down --all")
