"""Pods: they bind, run, end and vanish as their annotations say."""

import time

from checks.harness import Failed, require, wait_until
from checks.extender_stub import ExtenderStub
from rig.api_client import ApiError

_PODS = "/api/v1/namespaces/default/pods"
_PREFIX = "rig.asterism.dev/"
GANG_SIZE = 16


def pod(name, annotations=None, scheduler="default-scheduler", gpus=0, node=None, direct_node=None):
    spec = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [
        {"name": "train", "image": "none", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}},
        {"name": "side", "image": "none"}]}
    if node:
        spec["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}
    if direct_node:
        spec["nodeName"] = direct_node
    notes = {_PREFIX + key: value for key, value in (annotations or {}).items()}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": notes}, "spec": spec}


class PodChecks:
    def __init__(self, harness, rig_name):
        self.harness = harness
        self.rig_name = rig_name
        self.client = harness.client(rig_name)

    def _create(self, *arguments, **named):
        body = pod(*arguments, **named)
        self.client.post(_PODS, body)
        return body["metadata"]["name"]

    def _get(self, name):
        return self.client.get(f"{_PODS}/{name}")

    def _await_phase(self, name, phase, timeout_s=20.0):
        def arrived():
            found = self._get(name)
            return found if found["status"]["phase"] == phase else None
        return wait_until(arrived, f"pod {name} is {phase}", timeout_s)

    def _annotate(self, name, **annotations):
        notes = {_PREFIX + key.replace("_", "-"): value for key, value in annotations.items()}
        self.client.patch(f"{_PODS}/{name}", {"metadata": {"annotations": notes}})

    def _terminated(self, found):
        states = found["status"]["containerStatuses"]
        require([entry["name"] for entry in states] == ["train", "side"], f"containers are not those of the pod: {states}")
        return states[0]["state"]["terminated"]

    def runs(self):
        found = self._await_phase(self._create("plain", gpus=8), "Running")
        require(found["spec"].get("nodeName"), "no node")
        require(found["status"].get("podIP", "").startswith("10."), f"no address: {found['status'].get('podIP')}")
        ready = [entry["status"] for entry in found["status"]["conditions"] if entry["type"] == "Ready"]
        require(ready == ["True"], f"not Ready: {found['status']['conditions']}")
        require(all("running" in entry["state"] for entry in found["status"]["containerStatuses"]), "a container does not run")

    def ends(self):
        began = time.monotonic()
        name = self._create("ends", {"run-seconds": "3"})
        self._await_phase(name, "Running")
        found = self._await_phase(name, "Succeeded")
        require(time.monotonic() - began > 1.5, "ended too early")
        require(self._terminated(found)["exitCode"] == 0, "exit code is not 0")

    def fails(self):
        ended = self._terminated(self._await_phase(self._create("fails", {"run-seconds": "1", "exit-code": "3", "message": "lost a rank"}), "Failed"))
        require((ended["exitCode"], ended["reason"], ended["message"]) == (3, "Error", "lost a rank"), f"{ended}")
        require(ended["finishedAt"], "no finishedAt")

    def runs_out_of_memory(self):
        ended = self._terminated(self._await_phase(self._create("oom", {"oom": "true"}), "Failed"))
        require((ended["exitCode"], ended["reason"]) == (137, "OOMKilled"), f"{ended}")

    def hangs(self):
        name = self._create("hangs", {"hang": "true"})
        wait_until(lambda: self._get(name)["spec"].get("nodeName"), "the pod is bound")
        time.sleep(1.0)
        require(self._get(name)["status"]["phase"] == "Pending", "it runs")
        self._annotate(name, hang=None)
        self._await_phase(name, "Running")

    def fails_while_running(self):
        self._annotate("plain", exit_code="7")
        require(self._terminated(self._await_phase("plain", "Failed"))["exitCode"] == 7, "exit code is not 7")

    def is_refused(self):
        name = self._create("refused", {"refuse": "OutOfnvidia.com/gpu"}, direct_node="gpu-0001")
        found = self._await_phase(name, "Failed")
        require(found["status"]["reason"] == "OutOfnvidia.com/gpu", f"{found['status']}")
        require(not found["status"].get("containerStatuses"), "a container has a status")

    def vanishes(self):
        name = self._create("vanishes", direct_node="gpu-0002")
        self._await_phase(name, "Running")
        began = time.monotonic()
        self.client.delete(f"{_PODS}/{name}")
        wait_until(lambda: self._is_gone(name), "the pod is gone", 5.0)
        return f"{1000 * (time.monotonic() - began):.0f} ms"

    def _is_gone(self, name):
        try:
            self._get(name)
        except ApiError as error:
            return error.status == 404
        return False

    def stays_while_stopping(self):
        name = self._create("lingers", {"never-stop": "true"}, direct_node="gpu-0002")
        self._await_phase(name, "Running")
        self.client.delete(f"{_PODS}/{name}")
        time.sleep(1.0)
        require("deletionTimestamp" in self._get(name)["metadata"], "not marked as deleted")
        self.client.delete(f"{_PODS}/{name}", {"gracePeriodSeconds": 0})
        wait_until(lambda: self._is_gone(name), "a forced delete works", 5.0)

    def pinned_bind_through_extender(self):
        stub = ExtenderStub(int(self.harness.environment(self.rig_name)["ASTERISM_EXTENDER_PORT"]))
        try:
            began = time.monotonic()
            for index in range(GANG_SIZE):
                self._create(f"gang-{index}", scheduler="asterism", gpus=8, node=f"gpu-{index + 32:04}")
            for index in range(GANG_SIZE):
                found = self._await_phase(f"gang-{index}", "Running", 30.0)
                require(found["spec"]["nodeName"] == f"gpu-{index + 32:04}", f"gang-{index} is on {found['spec']['nodeName']}")
            seconds = time.monotonic() - began
        finally:
            stub.close()
        require(stub.calls["filter"] >= GANG_SIZE, f"the extender was called {dict(stub.calls)}")
        return f"{GANG_SIZE} pods in {seconds:.1f} s, extender calls {dict(stub.calls)}"

    def wait_without_extender(self):
        name = self._create("alone", scheduler="asterism", gpus=8)
        time.sleep(1.5)
        if self._get(name)["spec"].get("nodeName"):
            raise Failed("bound although nobody answers as extender")

    def without_gpu_needs_no_extender(self):
        self._await_phase(self._create("no-gpu", scheduler="asterism"), "Running")

    def node_not_ready(self):
        def ready():
            found = self.client.get("/api/v1/nodes/gpu-0003")
            return next(entry["status"] for entry in found["status"]["conditions"] if entry["type"] == "Ready")
        for value, status in (("true", "False"), (None, "True")):
            self.client.patch("/api/v1/nodes/gpu-0003", {"metadata": {"annotations": {_PREFIX + "not-ready": value}}})
            wait_until(lambda: ready() == status, f"Ready is {status}")

    def run(self):
        for title, body in (
            ("a pod of the default scheduler binds and runs", self.runs),
            ("run-seconds: it ends well after that time", self.ends),
            ("exit-code: it fails with that code and message", self.fails),
            ("oom: it fails as OOMKilled", self.runs_out_of_memory),
            ("hang: it stays Pending after the bind, and runs when the annotation goes", self.hangs),
            ("a running pod fails when it is annotated", self.fails_while_running),
            ("refuse: the kubelet's admission says no", self.is_refused),
            ("a deleted pod goes at once", self.vanishes),
            ("never-stop: a deleted pod stays until it is forced", self.stays_while_stopping),
            ("not-ready on a node, and back", self.node_not_ready),
            ("pinned pods are bound by asterism-scheduler through an extender", self.pinned_bind_through_extender),
            ("without extender a GPU pod of asterism-scheduler waits", self.wait_without_extender),
            ("a pod without GPUs does not need the extender", self.without_gpu_needs_no_extender),
        ):
            self.harness.check(title, body)
        self.client.close()
