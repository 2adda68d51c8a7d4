"""Creates the simulated GPU nodes, with the labels, addresses and capacity that real ones have.

Nodes are written with their status (Ready) in one request each, by several threads with kept-alive connections: that is
much faster than `kubectl create` of one list.
"""

import json
import queue
import threading
import time
from dataclasses import dataclass

from rig.api_client import ApiError
from rig.errors import RigError

GPU = "nvidia.com/gpu"
SUPERNODE_LABEL = "asterism.dev/declared-supernode"
_WRITERS = 8
_ATTEMPTS = 5
_BACKOFF_S = 0.2
# One /24 of pod addresses per node out of 10.64.0.0 - 10.255.255.0.
MAX_NODES = (256 - 64) * 256


@dataclass(frozen=True)
class NodePlan:
    count: int
    gpus: int
    nodes_per_supernode: int
    kubelet_version: str


def names(count):
    width = max(4, len(str(count - 1)))
    return [f"gpu-{index:0{width}}" for index in range(count)]


def supernode_count(plan):
    return -(-plan.count // plan.nodes_per_supernode)


def _conditions(now):
    healthy = {"MemoryPressure": "KubeletHasSufficientMemory", "DiskPressure": "KubeletHasNoDiskPressure",
               "PIDPressure": "KubeletHasSufficientPID"}
    conditions = [{"type": kind, "status": "False", "reason": reason} for kind, reason in healthy.items()]
    conditions.append({"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated by kwok"})
    return [{**condition, "lastHeartbeatTime": now, "lastTransitionTime": now} for condition in conditions]


def node(plan, index, name, now):
    supernode = index // plan.nodes_per_supernode
    width = max(4, len(str(supernode_count(plan) - 1)))
    resources = {"cpu": "192", "memory": "2Ti", "ephemeral-storage": "7Ti", "pods": "110", GPU: str(plan.gpus)}
    low, high = index % 256, index // 256
    pod_range = f"10.{64 + high}.{low}.0/24"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "node.kubernetes.io/instance-type": "simulated-h100",
                "nvidia.com/gpu.present": "true",
                "nvidia.com/gpu.count": str(plan.gpus),
                "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3",
                "nvidia.com/gpu.memory": "81559",
                SUPERNODE_LABEL: f"sn-{supernode:0{width}}",
            },
        },
        "spec": {"podCIDR": pod_range, "podCIDRs": [pod_range], "providerID": f"kwok://rig/{name}"},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": _conditions(now),
            "addresses": [{"type": "InternalIP", "address": f"172.16.{high}.{low}"}, {"type": "Hostname", "address": name}],
            "nodeInfo": {
                "architecture": "amd64", "operatingSystem": "linux", "kubeletVersion": plan.kubelet_version,
                "kubeProxyVersion": "", "containerRuntimeVersion": "simulated://0", "kernelVersion": "simulated",
                "osImage": "simulated", "machineID": name, "systemUUID": name, "bootID": name,
            },
        },
    }


def create(plan, make_client, progress):
    """Creates all nodes. `make_client()` gives a thread its client; `progress(done)` is called now and then."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    waiting = queue.SimpleQueue()
    for index, name in enumerate(names(plan.count)):
        waiting.put((index, name))
    failures = []
    stopped = threading.Event()

    def write():
        client = make_client()
        while not stopped.is_set():
            try:
                index, name = waiting.get_nowait()
            except queue.Empty:
                break
            try:
                _create_one(client, json.dumps(node(plan, index, name, now)).encode())
            except (ApiError, OSError) as error:
                failures.append(f"{name}: {error}")
                stopped.set()
        client.close()

    writers = [threading.Thread(target=write, daemon=True) for _ in range(min(_WRITERS, plan.count))]
    for writer in writers:
        writer.start()
    try:
        while any(writer.is_alive() for writer in writers):
            for writer in writers:
                writer.join(timeout=0.25)
            progress(plan.count - waiting.qsize())
    finally:
        stopped.set()
    if failures:
        raise RigError(f"nodes could not be created: {failures[0]}")


def _create_one(client, body):
    for attempt in range(_ATTEMPTS):
        try:
            client.post("/api/v1/nodes", body)
            return
        except (ApiError, OSError) as error:
            if isinstance(error, ApiError) and error.status == 409:
                return  # an attempt whose answer was lost
            if attempt + 1 == _ATTEMPTS or (isinstance(error, ApiError) and error.status not in (429, 500, 503, 504)):
                raise
            time.sleep(_BACKOFF_S * 2**attempt)
