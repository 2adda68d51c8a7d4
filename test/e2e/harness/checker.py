"""Checks what must always hold, from the API server's pods, nodes and jobs alone, and compares the ledger with them.

`PodWatch` and `JobWatch` look at every event of a watch: a wrong state that lasted a millisecond counts. `at_rest` looks at
the whole cluster once nothing moves any more. Neither asks Asterism what it believes, except to compare.
"""

import threading
import time
from collections import Counter

from harness import placement, pods as pod_facts, quantities
from harness.failure import Failed

_REST_TIMEOUT_S = 15.0
_LOOK_AGAIN_S = 0.15
_SHOWN = 5


class PodWatch:
    """No node ever has more GPUs of pods that have not ended than it has; no rank runs twice."""

    def __init__(self, gpus_of_node):
        self._gpus_of_node = gpus_of_node    # a function of the node's name
        self._lock = threading.Lock()
        self._held = {}
        self._ranks = {}
        self._violations = []

    def __call__(self, before, after):
        with self._lock:
            self._count(before, -1)
            self._count(after, +1)

    def _count(self, pod, sign):
        if pod is None or not pod_facts.node(pod) or pod_facts.ended(pod):
            return
        gpus, node = pod_facts.gpus(pod), pod_facts.node(pod)
        if gpus:
            total = self._held[node] = self._held.get(node, 0) + sign * gpus
            if sign > 0 and total > self._gpus_of_node(node):
                self._violations.append(f"{node} has {total} GPUs of pods since {pod_facts.name(pod)} was bound to it")
        if pod_facts.job_uid(pod) and not pod_facts.deleting(pod):
            key = pod_facts.job_uid(pod), pod_facts.ranks(pod)[0]
            count = self._ranks[key] = self._ranks.get(key, 0) + sign
            if sign > 0 and count > 1:
                self._violations.append(f"rank {key[1]} runs twice since {pod_facts.name(pod)} was bound")

    def take_violations(self):
        with self._lock:
            found, self._violations = self._violations, []
            return found


class JobWatch:
    """The epoch of a job never falls; a job that has ended stays so."""

    def __init__(self):
        self._lock = threading.Lock()
        self._violations = []

    def __call__(self, before, after):
        if before is None or after is None or before["metadata"]["uid"] != after["metadata"]["uid"]:
            return
        old, new = (item.get("status", {}) for item in (before, after))
        name = after["metadata"]["name"]
        epochs = [status.get("placement", {}).get("epoch", 0) for status in (old, new)]
        with self._lock:
            if epochs[1] < epochs[0]:
                self._violations.append(f"{name}: the epoch fell from {epochs[0]} to {epochs[1]}")
            if old.get("state") in ("Succeeded", "Failed") and new.get("state") != old["state"]:
                self._violations.append(f"{name}: it was {old['state']} and is {new.get('state')}")

    def take_violations(self):
        with self._lock:
            found, self._violations = self._violations, []
            return found


def at_rest(api, read_ledger=None, timeout_s=_REST_TIMEOUT_S):
    """Raises Failed with what does not hold. What still moves is given `timeout_s`. `read_ledger`: None without a leader."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            problems = problems_of(api, read_ledger)
        except OSError as error:
            problems = [f"cannot be read: {error}"]
        if not problems:
            return
        if time.monotonic() > deadline:
            more = f" (and {len(problems) - _SHOWN} more)" if len(problems) > _SHOWN else ""
            raise Failed("invariants: " + "; ".join(problems[:_SHOWN]) + more)
        time.sleep(_LOOK_AGAIN_S)


def problems_of(api, read_ledger=None):
    pods, nodes, jobs = api.list("Pod"), api.list("Node"), api.list("TrainingJob")
    problems = _overbooked(pods, nodes) + _promised_twice(pods, nodes, jobs) + _half_gangs(pods, jobs)
    if read_ledger:
        problems += _ledger_differs(read_ledger(), pods, nodes, jobs)
    return problems


def _overbooked(pods, nodes):
    gpus = _gpus_of_nodes(nodes)
    return [f"{node} holds {held[pod_facts.GPU]} GPUs and has {gpus[node]}" for node, held in pod_facts.held(pods).items()
            if node in gpus and held[pod_facts.GPU] > gpus[node]]


def _promised_twice(pods, nodes, jobs):
    """Counts what placed jobs were promised, with or without pods, their spares, and the pods of other people."""
    gpus = _gpus_of_nodes(nodes)
    foreign = pod_facts.held([pod for pod in pods if not pod_facts.job_uid(pod)])
    promised = {node: held[pod_facts.GPU] for node, held in foreign.items()}
    holders = {}
    for job in jobs:
        status = job.get("status", {})
        if status.get("state") in ("Succeeded", "Failed"):
            continue
        for node in [node for _, node, _ in placement.blocks(status)] + placement.spares(status):
            promised[node] = promised.get(node, 0) + status["effective"]["gpusPerPod"]
            holders.setdefault(node, []).append(job["metadata"]["name"])
    return [f"{node} has {gpus[node]} GPUs and {count} are promised, to {', '.join(holders.get(node, []))}" for node, count in promised.items()
            if node in gpus and count > gpus[node]]


def _gpus_of_nodes(nodes):
    return {node["metadata"]["name"]: int(node["status"]["allocatable"].get(pod_facts.GPU, 0)) for node in nodes}


def _half_gangs(pods, jobs):
    by_job = {}
    for pod in pods:
        by_job.setdefault(pod_facts.job_uid(pod), []).append(pod)
    by_job.pop(None, None)
    problems = []
    for job in jobs:
        own = by_job.pop(job["metadata"]["uid"], [])
        problems += [f"{job['metadata']['name']}: {problem}" for problem in _job_problems(job, own)]
    problems += [f"pods of a job that is gone: {', '.join(map(pod_facts.name, left[:3]))}" for left in by_job.values()]
    return problems


def _job_problems(job, own):
    status = job.get("status", {})
    kept = status.get("restarts", {}).get("last", {}).get("pod")
    current = [pod for pod in own if not (pod_facts.ended(pod) and pod_facts.name(pod) == kept)]
    if status.get("state") in ("Succeeded", "Failed"):
        return [f"is {status['state']} and pod {pod_facts.name(pod)} is there" for pod in current if not pod_facts.ended(pod)]
    homes = {first: (node, epoch) for first, node, epoch in placement.blocks(status)}
    if not homes:
        return [f"is not placed ({status.get('state')}) and pod {pod_facts.name(pod)} is there" for pod in current]
    problems = []
    bound = sum(1 for pod in current if pod_facts.node(pod))
    if bound not in (0, len(homes)):
        problems.append(f"half a gang: {bound} of {len(homes)} pods are bound")
    if len(homes) != status.get("effective", {}).get("pods"):
        problems.append(f"status.placement has {len(homes)} blocks, status.effective.pods is {status.get('effective', {}).get('pods')}")
    for pod in current:
        problems += _pod_problems(pod, homes)
    return problems


def _pod_problems(pod, homes):
    first = pod_facts.ranks(pod)[0]
    if first not in homes:
        return [f"{pod_facts.name(pod)}: rank {first} starts no block of status.placement"]
    node, epoch = homes[first]
    problems = []
    if pod_facts.epoch(pod) != epoch:
        problems.append(f"{pod_facts.name(pod)} is of epoch {pod_facts.epoch(pod)}, its block of epoch {epoch}")
    if pod_facts.pin(pod) != node:
        problems.append(f"{pod_facts.name(pod)} is pinned to {pod_facts.pin(pod)}, status.placement says {node}")
    if pod_facts.node(pod) not in (None, node):
        problems.append(f"{pod_facts.name(pod)} is bound to {pod_facts.node(pod)}, status.placement says {node}")
    return problems


def _ledger_differs(ledger, pods, nodes, jobs):
    return _ledger_gangs_differ(ledger, pods, jobs) + _ledger_nodes_differ(ledger, nodes) + _ledger_use_differs(ledger, pods, jobs)


def _ledger_gangs_differ(ledger, pods, jobs):
    present = {pod_facts.uid(pod) for pod in pods}
    problems = [f"ledger: block {block['firstRank']} of {gang['name']} is {block['state']} by pod {block.get('pod')!r}, which does not exist"
                for gang in ledger["gangs"] for block in gang["blocks"] if block["state"] != "reserved" and block.get("pod") not in present]
    in_ledger = {gang["uid"] for gang in ledger["gangs"]}
    placed = {job["metadata"]["uid"]: job["metadata"]["name"] for job in jobs
              if placement.blocks(job.get("status", {})) and job["status"].get("state") not in ("Succeeded", "Failed")}
    problems += [f"ledger: {placed[uid]} is placed and not booked" for uid in placed.keys() - in_ledger]
    problems += [f"ledger: gang {gang['name']} is booked and its job is not placed"
                 for gang in ledger["gangs"] if gang["uid"] not in placed]
    return problems


def _ledger_nodes_differ(ledger, nodes):
    """GPU nodes are those that name the resource, as where the configuration has no nodeSelector."""
    expected = {node["metadata"]["name"]: quantities.amounts(node["status"]["allocatable"])
                for node in nodes if pod_facts.GPU in node["status"].get("allocatable", {})}
    seen = {node["name"]: node["allocatable"] for node in ledger["nodes"]}
    problems = [f"ledger: {name} is missing" for name in sorted(expected.keys() - seen.keys())]
    problems += [f"ledger: there is no GPU node {name}" for name in sorted(seen.keys() - expected.keys())]
    problems += [f"ledger: {name} has {seen[name]}, its status says {expected[name]}"
                 for name in sorted(expected.keys() & seen.keys()) if seen[name] != expected[name]]
    return problems


def _ledger_use_differs(ledger, pods, jobs):
    pod_of_uid = {pod_facts.uid(pod): pod for pod in pods}
    job_of_uid = {job["metadata"]["uid"]: job for job in jobs}
    expected = pod_facts.held(pods)
    for gang in ledger["gangs"]:
        for block in gang["blocks"]:
            if block["state"] != "bound":
                pod, job = pod_of_uid.get(block.get("pod")), job_of_uid.get(gang["uid"])
                wanted = pod_facts.requests(pod) if pod else _requests_of_a_block(job) if job else Counter()
                expected[block["node"]] = expected.get(block["node"], Counter()) + wanted
    for job in jobs:
        status = job.get("status", {})
        if placement.spares(status) and status.get("state") not in ("Succeeded", "Failed"):
            own = [pod for pod in pods if pod_facts.job_uid(pod) == job["metadata"]["uid"]]
            wanted = pod_facts.requests(own[0]) if own else _requests_of_a_block(job)
            for node in placement.spares(status):
                expected[node] = expected.get(node, Counter()) + wanted
    return [f"ledger: {node['name']} uses {node['used']}, pods, blocks without a bound pod and spares make {dict(expected.get(node['name'], {}))}"
            for node in ledger["nodes"] if Counter(node["used"]) != expected.get(node["name"], Counter())]


def _requests_of_a_block(job):
    """What the block's pod will ask for, while there is none."""
    spec = job["spec"]
    own = spec.get("container", {})
    others = [each for each in spec.get("template", {}).get("spec", {}).get("containers", []) if each["name"] != own.get("name")]
    return pod_facts.requests({"spec": {"containers": [own, *others]}}) | Counter({pod_facts.GPU: job["status"]["effective"]["gpusPerPod"]})
