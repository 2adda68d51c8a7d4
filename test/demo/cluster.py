"""The cluster of the demo: rig, chart, controller, and the job of examples/llama-512.yaml."""

import http.client
import json
import os
import time

from home import CONTROLLER_PID, RIG
from harness import chart, controller as controllers, places, rig as rigs, tls
from harness.api import Api
from harness.failure import Failed

from rig import identities, places as rig_places, ports, processes
from rig.errors import RigError

NODES = 1280
GPUS = 8
NAMESPACE, JOB = "research", "llama"
IDENTITY = "asterism-controller-0"
_LEADING_TIMEOUT_S = 60.0
_RUNNING_TIMEOUT_S = 180.0
_ACCOUNT_TIMEOUT_S = 30.0
_TOKEN_SECONDS = 30 * 86400


class Demo:
    def __init__(self, home):
        self.home = home
        self.rig = rigs.Rig("demo", NODES)
        self.rig.name, self.rig.owner = RIG, None

    @property
    def log(self):
        return self.home / f"{IDENTITY}.log"

    def attach(self):
        """To a demo that runs already."""
        self.rig.variables = rigs.read_environment(rig_places.directory(RIG) / "rig.env")
        self.api = Api(self.rig.variables)
        return self

    @property
    def metrics_port(self):
        return self.rig.free_ports()[0]

    def start_rig(self):
        config = chart.write_scheduler_config(self.home / "scheduler-config.yaml")
        self.rig.add_options("--scheduler-config", config)
        self.rig.up()
        self.attach()

    def install_chart(self):
        self.config = chart.install(self.rig)

    def start_controller(self):
        kubeconfig = identities.with_token(RIG, chart.SERVICE_ACCOUNT, _TOKEN_SECONDS)
        numbers = {"https": int(self.rig["ASTERISM_EXTENDER_PORT"]), "metrics": self.metrics_port}
        path = self.home / "config.yaml"
        path.write_text(controllers.with_ports(self.config, numbers), encoding="utf-8")
        command = [places.controller_program(), "--config", path, "--kubeconfig", kubeconfig, "--namespace", chart.NAMESPACE,
                   "--identity", IDENTITY, f"--bind-address={ports.ADDRESS}"]
        # In a session of its own: it goes on when this command has ended.
        processes.start([str(part) for part in command], dict(os.environ), self.home.folder, self.log, self.home / CONTROLLER_PID)
        self._wait_leading()

    def _wait_leading(self):
        deadline = time.monotonic() + _LEADING_TIMEOUT_S
        while not self._leads():
            if processes.running_pid(self.home / CONTROLLER_PID) is None:
                text = self.log.read_text(errors="replace").strip()[-1500:]
                remedy = "another program has taken the port meanwhile: start the demo again" if "Address already in use" in text else None
                raise RigError(f"asterism-controller ended at its start:\n{text}", remedy)
            if time.monotonic() > deadline:
                raise Failed(f"asterism-controller does not lead after {_LEADING_TIMEOUT_S:.0f} s; its log: {self.log}")
            time.sleep(0.05)

    def _leads(self):
        try:
            connection = http.client.HTTPSConnection(ports.ADDRESS, self.metrics_port, timeout=2, context=tls.context(self.rig))
            connection.request("GET", "/leaderz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False

    def run_job(self):
        """Applies the two examples. Returns the seconds from `kubectl apply` until all pods run."""
        self.rig.kubectl("create", "namespace", NAMESPACE)
        self._wait_account()
        self.rig.kubectl("apply", "--filename", places.EXAMPLES / "queue.yaml")
        began = time.monotonic()
        self.rig.kubectl("apply", "--filename", places.EXAMPLES / "llama-512.yaml")
        deadline = began + _RUNNING_TIMEOUT_S
        while (status := self.job().get("status", {})).get("state") != "Running":
            if time.monotonic() > deadline:
                raise Failed(f"the job does not run after {_RUNNING_TIMEOUT_S:.0f} s: {json.dumps(status)[:1500]}")
            time.sleep(0.05)
        seconds = time.monotonic() - began
        while "startMilliseconds" not in self.job()["status"].get("timings", {}) and time.monotonic() < deadline:
            time.sleep(0.1)
        return seconds

    def _wait_account(self):
        """Pods are refused before kube-controller-manager has made it."""
        deadline = time.monotonic() + _ACCOUNT_TIMEOUT_S
        while not self.api.get("ServiceAccount", "default", NAMESPACE):
            if time.monotonic() > deadline:
                raise Failed(f"namespace {NAMESPACE} gets no ServiceAccount within {_ACCOUNT_TIMEOUT_S:.0f} s: does kube-controller-manager "
                             f"run? Its log: {self.rig['ASTERISM_RIG_LOGS']}/kube-controller-manager.log")
            time.sleep(0.05)

    def job(self):
        return self.api.get("TrainingJob", JOB, NAMESPACE)

    def pods(self):
        return self.api.list("Pod", NAMESPACE)

    def nodes(self):
        return self.api.list("Node")
