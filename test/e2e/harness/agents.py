"""Agents of simulated nodes: what they measure is made up, the way to the controller is the real one."""

import base64
import json
import os
import re
import subprocess

from harness import places
from harness.failure import require

_PROGRAM = places.SOURCE / "build/ci/test/e2e/simulated_agents"
_NAMESPACE = "asterism-agents"
_ACCOUNT = "asterism-agent"
_LINKS = 18


def measurement(uuid, gpus=8, links_down=0, health="HEALTHY"):
    """Of a node in that NVLink domain whose first GPU has some links down."""
    return {
        "gpus": {"gpus": [{"uuid": f"GPU-{gpu}", "product": "simulated", "numaNode": gpu // 4,
                           "links": [{"number": link, "up": gpu > 0 or link >= links_down} for link in range(_LINKS)]} for gpu in range(gpus)]},
        "nvlinkDomain": {"state": "MEMBER", "clusterUuid": uuid, "cliqueId": 1, "health": health},
    }


class Agents:
    """Processes that speak for many nodes, each with the token of a pod on that node. They end with the scenario."""

    def __init__(self, cluster, relay_host=""):
        """`relay_host`: the address of these agents, where one of them can be the others' relay; empty: none can."""
        self._cluster = cluster
        self._relay_host = relay_host
        self._tokens = {}
        self._processes = {}
        cluster.defer(self._clean)

    def tell(self, measurements, process="agents"):
        """{node: measurement}. Attaches who is not attached yet. `process`: any name; agents of one end together."""
        if process not in self._processes:
            self._processes[process] = self._start(process)
        stdin = self._processes[process].stdin
        for node, measured in measurements.items():
            stdin.write(json.dumps({"node": node, "token": self._token(node), "measurement": measured}) + "\n")
        stdin.flush()

    def stop(self):
        for process in self._processes.values():
            process.stdin.close()
            process.wait(30)
        self._processes.clear()

    def kill(self, process):
        killed = self._processes.pop(process)
        killed.kill()
        killed.wait()
        killed.stdin.close()

    def _start(self, name):
        cluster = self._cluster
        (port,) = re.findall(r"grpc_port=(\d+)", cluster.controller.log_text())[-1:]
        files = {"ASTERISM_CA": cluster.rig["ASTERISM_EXTENDER_CA"], "ASTERISM_TOKENS": str(cluster.scratch),
                 "ASTERISM_RELAY_HOST": self._relay_host}
        cluster.wait_for(lambda: cluster.api.get("Secret", "asterism-agent-tls", _NAMESPACE), "the agents have a certificate")
        secret = cluster.api.get("Secret", "asterism-agent-tls", _NAMESPACE)
        for variable, key in (("ASTERISM_CERTIFICATE", "tls.crt"), ("ASTERISM_KEY", "tls.key")):
            path = cluster.scratch / f"agent-{key}"
            path.write_bytes(base64.b64decode(secret["data"][key]))
            files[variable] = str(path)
        with open(cluster.scratch / f"{name}.log", "w", encoding="utf-8") as log:
            return subprocess.Popen([_PROGRAM, f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=log, stderr=log, text=True,
                                    env={**os.environ, **files})

    def _token(self, node):
        """As kubelet gives it to the agent's pod: bound to that pod, which is on the node."""
        if node not in self._tokens:
            name = f"agent-{node}"
            pod = {"kind": "Pod", "metadata": {"name": name, "namespace": _NAMESPACE},
                   "spec": {"nodeName": node, "serviceAccountName": _ACCOUNT, "tolerations": [{"operator": "Exists"}],
                            "containers": [{"name": "agent", "image": "simulated"}]}}
            uid = self._cluster.api.create(pod)["metadata"]["uid"]
            self._tokens[node] = self._cluster.rig.kubectl("--namespace", _NAMESPACE, "create", "token", _ACCOUNT, "--bound-object-kind", "Pod",
                                                           "--bound-object-name", name, "--bound-object-uid", uid).strip()
            require(self._tokens[node], f"no token for the agent of {node}")
        return self._tokens[node]

    def _clean(self):
        """Takes the agents' pods away, and what the leader remembers of what they measured."""
        self.stop()
        for node in self._tokens:
            self._cluster.api.delete("Pod", f"agent-{node}", _NAMESPACE)
        self._cluster.controller.terminate()
        self._cluster.rig.kubectl("label", "nodes", "--all", "asterism.dev/domain-supernode-")
        self._cluster.ensure_controller()
