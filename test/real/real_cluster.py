"""A rig with real nodes and Asterism installed on it by its own chart: controllers, kube-scheduler and agents are pods, GPUs come from
the test's device plug-in. What scenarios act on."""

import base64
import contextlib
import http.client
import json
import os
import ssl
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "test/e2e")]

import real_gpus  # noqa: E402
from harness.failure import Failed, require  # noqa: E402
from harness.rig import Rig  # noqa: E402

SYSTEM = "asterism-system"
AGENTS = "asterism-agents"
JOB_IMAGE = "rig.asterism.dev/job:1"
MPI_IMAGE = "rig.asterism.dev/job-mpi:1"
PATIENCE_S = 90.0
_PYTHON = ["python3", "-c"]
# Requests of a machine that runs all four nodes itself.
_VALUES = {
    "controller": {"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}},
    "scheduler": {"image": {"repository": "rig.asterism.dev/kube-scheduler"},
                  "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
    # The driver's library is a fake that reads what the device plug-in reads.
    "agents": {"probes": {"periodSeconds": 5, "nvml": {"libraryFolder": f"/{real_gpus.FOLDER}", "privileged": True}}},
    "crds": {"image": {"repository": "rig.asterism.dev/kubectl"}},
    # Nodes are declared before they are measured: a change of all of them.
    "config": {"topology": {"massChangeHoldSeconds": 1},
               "leaderElection": {"leaseDurationSeconds": 5, "renewDeadlineSeconds": 3, "retryPeriodSeconds": 0.5}},
}
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


class RealCluster:
    def __init__(self, build, profile="real", options=(), owner=True):
        self.build = build
        self.simulated = profile == "full"  # it has simulated nodes too
        self.rig = Rig("real", 0, profile=profile, options=options)
        if not owner:
            self.rig.owner = None
        self.scratch = self.rig.make_scratch()

    # ---- the whole ----

    def images(self, folder, jobs=("job",)):
        """Paths of all images, made anew: the same bytes where nothing has changed."""
        programs = ("asterism-controller", "asterism-agent", "asterism-launch", "asterism-test-device-plugin")
        _run(ROOT / "deploy/images/build", "--build", self.build, "--out", folder, *programs)
        _run(ROOT / "test/rig/images", "--out", folder, *jobs, "kube-scheduler", "kubectl")
        return [folder / f"{name}.tar" for name in (*programs, *jobs, "kube-scheduler", "kubectl")]

    def up(self, jobs=("job",), quiet=True):
        folder = self.scratch / "images"
        folder.mkdir()
        for path in self.images(folder, jobs):
            self.rig.add_options("--image", path)
        self.rig.add_options("--real-pci", real_gpus.write_pci(self.scratch / "pci"))
        self.rig.up(quiet)
        self.nodes = self.rig["ASTERISM_RIG_REAL_NODES"].split()
        for name in self.nodes:
            real_gpus.install_driver(self.root_of(name) / real_gpus.FOLDER, self.build)
            self.write_gpus(name)
        self.apply(*_device_plugin())

    def install(self, *arguments):
        """As an administrator would, into a namespace that enforces the strictest profile."""
        self.make_namespace(SYSTEM)
        self.rig.kubectl("label", "--overwrite", "namespace", SYSTEM, *(f"{key}={value}" for key, value in _RESTRICTED.items()))
        self.helm("install", *arguments)

    def helm(self, verb, *arguments):
        values = self.scratch / "values.json"
        values.write_text(json.dumps(_VALUES), encoding="utf-8")
        return self.rig.helm(verb, "asterism", ROOT / "charts/asterism", "--namespace", SYSTEM, "--values", values, *arguments)

    def down(self):
        self.rig.down()

    # ---- objects ----

    def apply(self, *objects):
        self.rig.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))

    def get(self, kind, name=None, namespace=None, check=True):
        """An object, or None; all of them without a name."""
        where = ["-n", namespace] if namespace else ["-A"]
        text = self.rig.kubectl("get", kind, *([name] if name else []), *where, "-o", "json", "--ignore-not-found", check=check)
        found = json.loads(text) if text.strip() else None
        return found if name else (found or {}).get("items", [])

    def make_namespace(self, name, restricted=True):
        self.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": _RESTRICTED if restricted else {}}})
        self.wait(lambda: self.get("serviceaccount", "default", name), f"namespace {name} has its ServiceAccount")

    def wait(self, reached, what, patience_s=PATIENCE_S):
        """The first true value of `reached`."""
        deadline = time.monotonic() + patience_s
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if value := reached():
                    return value
            require(time.monotonic() < deadline, f"not within {patience_s:.0f} s: {what}")
            time.sleep(0.2)

    # ---- Asterism ----

    def ready_pods(self, namespace, component):
        pods = self.get(f"pods -l app.kubernetes.io/component={component}".split()[0], namespace=namespace)
        return [pod for pod in pods if pod["metadata"]["labels"].get("app.kubernetes.io/component") == component
                and any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", []))]

    def wait_ready(self):
        self.wait(lambda: len(self.ready_pods(SYSTEM, "controller")) == 2, "two controllers are Ready")
        self.wait(lambda: len(self.ready_pods(SYSTEM, "scheduler")) == 2, "two kube-schedulers are Ready")
        self.wait(lambda: len(self.ready_pods(AGENTS, "agent")) == len(self.nodes), "an agent on each node is Ready")
        self.wait(self.leader, "one controller leads")
        self.wait(lambda: self.metric("asterism_agents_attached") == len(self.nodes), "all agents are attached")
        self.wait(lambda: all(self.allocatable(node, "nvidia.com/gpu") == real_gpus.GPUS_OF_NODE and self.allocatable(node, "asterism.dev/port")
                              for node in self.nodes), "all nodes offer GPUs and the port")

    def allocatable(self, node, resource):
        return int(self.get("node", node)["status"]["allocatable"].get(resource, 0))

    def leader(self):
        """The pod, or None."""
        lease = self.get("lease", "asterism-controller", SYSTEM)
        holder = (lease or {}).get("spec", {}).get("holderIdentity", "").split("_")[0]
        pod = self.get("pod", holder, SYSTEM) if holder else None
        return pod if pod and not pod["metadata"].get("deletionTimestamp") else None

    def page(self, path):
        """Of the leader's port for metrics."""
        address = self.leader()["status"]["podIP"]
        return _fetch(address, 8080, path, ssl._create_unverified_context())  # pylint: disable=protected-access

    def metric(self, name):
        for line in self.page("/metrics").splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return None

    def ledger(self):
        """Of the leader, which shows it to kube-scheduler only."""
        secret = self.get("secret", "asterism-scheduler-tls", SYSTEM)["data"]
        for key in ("tls.crt", "tls.key"):
            (self.scratch / key).write_bytes(base64.b64decode(secret[key]))
        context = ssl._create_unverified_context()  # pylint: disable=protected-access
        context.load_cert_chain(self.scratch / "tls.crt", self.scratch / "tls.key")
        return json.loads(_fetch(self.leader()["status"]["podIP"], 8443, "/ledgerz", context))

    # ---- nodes ----

    def root_of(self, node):
        """The node's root folder, as this machine sees it."""
        return Path(self.rig["ASTERISM_RIG_DIR"]) / "nodes" / node / "root"

    def write_gpus(self, node, **faults):
        """What the device plug-in and the driver's library say of a node from now on."""
        real_gpus.write(self.root_of(node) / real_gpus.FOLDER, self.nodes.index(node), **faults)

    def node(self, name, *action):
        return _run(ROOT / "test/rig/node", self.rig.name, name, *action)

    # ---- jobs ----

    def submit(self, name, gpus, program, namespace, image=JOB_IMAGE, command=None, **spec):
        """`program`: text for python3 -c, without quotes around it."""
        container = {"image": image, "command": command or [*_PYTHON, program], "securityContext": SECURITY, **spec.pop("container", {})}
        # No back-off: scenarios that are about it state their own.
        body = {"apiVersion": "asterism.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": namespace},
                "spec": {"gpus": gpus, "framework": "Plain", "container": container, "failurePolicy": {"backoffSeconds": 0}, **spec}}
        self.apply(body)
        return RealJob(self, name, namespace)


SECURITY = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "runAsUser": 1000, "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"}}


class RealJob:
    def __init__(self, cluster, name, namespace):
        self.cluster = cluster
        self.name = name
        self.namespace = namespace

    def status(self):
        return (self.cluster.get("trainingjob", self.name, self.namespace) or {}).get("status", {})

    def wait_state(self, state, patience_s=PATIENCE_S):
        def reached():
            status = self.status()
            if status.get("state") in ("Failed", "Succeeded") and status["state"] != state:
                raise Failed(f"{self.name} is {status['state']}: {json.dumps(status.get('restarts'))}")
            return status if status.get("state") == state else None
        try:
            return self.cluster.wait(reached, f"{self.name} is {state}", patience_s)
        except Failed as error:
            raise Failed(f"{error}; it is {json.dumps(self.status())[:1500]}") from None

    def pods(self):
        """By first rank; of the present epoch."""
        epoch = str(self.status().get("placement", {}).get("epoch", 0))
        pods = [pod for pod in self.cluster.get("pods", namespace=self.namespace)
                if pod["metadata"].get("labels", {}).get("asterism.dev/job") == self.name
                and pod["metadata"]["annotations"]["asterism.dev/epoch"] == epoch]
        return {int(pod["metadata"]["annotations"]["asterism.dev/ranks"].split("-")[0]): pod for pod in pods}

    def logs(self, rank=0, container="trainer"):
        return self.cluster.rig.kubectl("logs", "-n", self.namespace, self.pods()[rank]["metadata"]["name"], "-c", container)

    def delete(self):
        self.cluster.rig.kubectl("delete", "trainingjob", self.name, "-n", self.namespace, "--ignore-not-found", "--wait=true")


def _device_plugin():
    """A DaemonSet on the real nodes, in the place of the vendor's."""
    volumes = [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}},
               {"name": "fixture", "hostPath": {"path": f"/{real_gpus.FOLDER}"}}]
    container = {"name": "plugin", "image": "registry.asterism.dev/asterism-test-device-plugin:0.1.0", "args": ["--fixture=/fixture/gpus.json"],
                 "volumeMounts": [{"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}, {"name": "fixture", "mountPath": "/fixture"}]}
    pod = {"metadata": {"labels": {"app": "test-gpus"}},
           "spec": {"containers": [container], "volumes": volumes, "tolerations": [{"operator": "Exists"}],
                    "nodeSelector": {"rig.asterism.dev/layer": "real"}}}
    namespace = {"apiVersion": "v1", "kind": "Namespace",
                 "metadata": {"name": "test-gpus", "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
    return namespace, {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "test-gpus", "namespace": "test-gpus"},
                       "spec": {"selector": {"matchLabels": {"app": "test-gpus"}}, "template": pod}}


def _run(*command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
                          check=False, env={**os.environ})
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr).strip()[-2000:]}")
    return done.stdout


def _fetch(address, port, path, context):
    connection = http.client.HTTPSConnection(address, port, timeout=10, context=context)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != 200:
            raise OSError(f"{path}: {answer.status} {text[:200]}")
        return text
    finally:
        connection.close()
