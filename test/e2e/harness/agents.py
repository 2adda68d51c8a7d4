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
    """One process that speaks for many nodes, each with the token of a pod on that node. Ends with the scenario."""

    def __init__(self, cluster):
        self._cluster = cluster
        self._tokens = {}
        self._process = None
        cluster.defer(self._clean)

    def tell(self, measurements):
        """{node: measurement}. Attaches who is not attached yet."""
        if self._process is None:
            self._start()
        for node, measured in measurements.items():
            self._process.stdin.write(json.dumps({"node": node, "token": self._token(node), "measurement": measured}) + "\n")
        self._process.stdin.flush()

    def stop(self):
        if self._process is not None:
            self._process.stdin.close()
            self._process.wait(30)
            self._process = None

    def _start(self):
        cluster = self._cluster
        (port,) = re.findall(r"grpc_port=(\d+)", cluster.controller.log_text())[-1:]
        files = {"ASTERISM_CA": cluster.rig["ASTERISM_EXTENDER_CA"]}
        cluster.wait_for(lambda: cluster.api.get("Secret", "asterism-agent-tls", _NAMESPACE), "the agents have a certificate")
        secret = cluster.api.get("Secret", "asterism-agent-tls", _NAMESPACE)
        for variable, key in (("ASTERISM_CERTIFICATE", "tls.crt"), ("ASTERISM_KEY", "tls.key")):
            path = cluster.scratch / f"agent-{key}"
            path.write_bytes(base64.b64decode(secret["data"][key]))
            files[variable] = str(path)
        self._log = open(cluster.scratch / "agents.log", "w", encoding="utf-8")
        self._process = subprocess.Popen([_PROGRAM, f"127.0.0.1:{port}"], stdin=subprocess.PIPE, stdout=self._log, stderr=self._log, text=True,
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
