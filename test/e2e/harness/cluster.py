"""A rig with Asterism on it: what scenarios act on. Creates objects, watches them, and cleans up after each scenario."""

import contextlib
import time

from harness import chart, checker, commit_mode, controller, jobs, places, pods as pod_facts, tls
from harness.api import Api, ApiError
from harness.failure import Failed, require
from harness.job import Job
from harness.rig import Rig
from harness.store import Changes, Store

NAMESPACE = "e2e"
# Generous: they cost time only where something is wrong.
PATIENCE_S = 60.0
_ACCOUNT_TIMEOUT_S = 30.0


class Cluster:
    def __init__(self, prefix, nodes, program, log_folder, config=None, namespace=NAMESPACE):
        self.namespace = namespace
        self._program = program
        self._log_folder = log_folder
        self.config_values = config
        self.rig = Rig(prefix, nodes)
        self.scratch = self.rig.make_scratch()
        self.controllers = []
        self.direct = False     # whether the operator binds pods itself; see commit_mode
        self.examples = places.EXAMPLES
        self._deleted_nodes = {}
        self._cleanups = contextlib.ExitStack()
        self._stores = []

    # ---- the whole ----

    def up(self, watch=True, quiet=True):
        """`watch`: keep copies of pods, jobs, nodes and services; a bench does without, their cost would be measured."""
        self.rig.add_options("--scheduler-config", chart.write_scheduler_config(self.scratch / "scheduler-config.yaml"))
        self.rig.up(quiet)
        self._log_folder.mkdir(parents=True, exist_ok=True)
        self.api = Api(self.rig.variables)
        self.config = chart.install(self.rig, self.config_values)
        self.kubeconfig = self.rig.kubeconfig(chart.SERVICE_ACCOUNT)
        self.create_namespace(self.namespace)
        if watch:
            self._watch()

    def _watch(self):
        self.changes = Changes()
        self.pod_watch = checker.PodWatch(lambda node: self.rig.gpus_per_node)
        self.job_watch = checker.JobWatch()
        self.pods = self._store("Pod", self.pod_watch)
        self.jobs = self._store("TrainingJob", self.job_watch)
        self.nodes = self._store("Node")
        self.services = self._store("Service")

    def down(self):
        for each in self.controllers:
            with contextlib.suppress(Failed):
                each.terminate()
        for store in self._stores:
            store.stop()
        self.rig.down()

    def _store(self, kind, *observers):
        store = Store(self.api, kind, self.changes, observers)
        store.start()
        self._stores.append(store)
        return store

    def create_namespace(self, name):
        with contextlib.suppress(ApiError):
            self.api.create({"kind": "Namespace", "metadata": {"name": name}})
        # Pods are refused before kube-controller-manager has made it.
        deadline = time.monotonic() + _ACCOUNT_TIMEOUT_S
        while not self.api.get("ServiceAccount", "default", name):
            require(time.monotonic() < deadline, f"namespace {name} gets no ServiceAccount")
            time.sleep(0.05)

    # ---- controllers ----

    def new_controller(self, identity="controller-0", https_port=None, number=0, kubeconfig=None):
        """Does not start it. The first one answers where asterism-scheduler asks, others need `https_port`."""
        ports = {"https": https_port or int(self.rig["ASTERISM_EXTENDER_PORT"]), "metrics": self.rig.free_ports()[number]}
        folders = {"log": self._log_folder, "config": self.scratch}
        made = controller.Controller(self._program, identity, self.config, kubeconfig or self.kubeconfig, ports, folders,
                                     tls.context(self.rig))
        self.controllers.append(made)
        return made

    @property
    def controller(self):
        return self.controllers[0]

    def scheduler_paused(self):
        """Inside, pods are created and pinned and nobody binds them."""
        return self.rig.paused("asterism-scheduler")

    def leader(self):
        return next((each for each in self.controllers if each.running() and each.leads()), None)

    def ensure_controller(self):
        """Starts the one controller again where it has ended, as a Deployment would."""
        for extra in self.controllers[1:]:
            extra.terminate()
        del self.controllers[1:]
        if not self.controllers:
            self.new_controller()
        self.require_controllers()
        if not self.controller.running():
            self.controller.start()
        self.controller.wait_leading()

    # ---- objects ----

    def submit(self, body):
        return Job(self, self.api.create(body))

    def adopt(self, name, namespace):
        """A job that somebody else has created."""
        return Job(self, self.api.get("TrainingJob", name, namespace))

    def run_job(self, name, gpus, timeout_s=PATIENCE_S, **arguments):
        """Creates a job in the namespace of the tests and waits until it runs."""
        return self.submit_job(name, gpus, **arguments).wait_state("Running", timeout_s)

    def submit_job(self, name, gpus, **arguments):
        arguments.setdefault("namespace", self.namespace)
        return self.submit(jobs.training_job(name, gpus, **arguments))

    def create_pod(self, name, **arguments):
        arguments.setdefault("namespace", self.namespace)
        return self.api.create(jobs.pod(name, **arguments))

    def patch_if_there(self, kind, name, body):
        try:
            self.api.patch(kind, name, body, self.namespace)
        except ApiError as error:
            if error.status != 404:
                raise

    def fill(self, free_nodes, name="filler"):
        """A gang on all nodes but `free_nodes`; best fit leaves whole supernodes."""
        return self.run_job(name, (self.rig.nodes - free_nodes) * self.rig.gpus_per_node)

    def cordon(self, node, value=True):
        self.api.patch("Node", node, {"spec": {"unschedulable": value or None}})
        if value:
            self.defer(lambda: self.api.get("Node", node) and self.cordon(node, False))

    def delete_node(self, node):
        """It comes back with `restore_deleted_nodes`, at the latest at the end of the scenario."""
        self._deleted_nodes[node] = self.api.get("Node", node)
        self.api.delete("Node", node)

    def restore_deleted_nodes(self):
        for name, found in self._deleted_nodes.items():
            meta = {key: found["metadata"][key] for key in ("name", "labels", "annotations")}
            spec = {key: value for key, value in found["spec"].items() if key not in ("unschedulable", "taints")}
            self.api.create({"kind": "Node", "metadata": meta, "spec": spec, "status": found["status"]})
            self.wait_for(lambda name=name: self.nodes.get(name), f"node {name} is back")
        self._deleted_nodes.clear()

    def gang_pods(self, uid):
        return [pod for pod in self.pods.all() if pod_facts.job_uid(pod) == uid]

    def wait_for(self, predicate, what, timeout_s=PATIENCE_S):
        def look():
            self.require_controllers()
            return predicate()
        return self.changes.wait_for(look, timeout_s, what)

    def require_controllers(self):
        """None has ended by itself."""
        falls = [each.fall() for each in self.controllers if each.fall()]
        require(not falls, "; ".join(falls))

    # ---- before and after a scenario ----

    def defer(self, cleanup):
        """`cleanup()` runs when the scenario has ended, last one first."""
        self._cleanups.callback(cleanup)

    def check(self, timeout_s=15.0):
        """What must hold at rest, and what the watches saw since the last check."""
        leader = self.leader()
        checker.at_rest(self.api, leader.ledger if leader else None, timeout_s)
        self.require_no_violations()

    def require_no_violations(self):
        found = self.pod_watch.take_violations() + self.job_watch.take_violations()
        require(not found, "seen meanwhile: " + "; ".join(found[:3]))

    def reset(self):
        """Removes what the scenario left; raises Failed where something does not go away by itself once its job is deleted."""
        self._cleanups.close()
        self.restore_deleted_nodes()
        for job in self.api.list("TrainingJob"):
            self.api.delete("TrainingJob", job["metadata"]["name"], job["metadata"]["namespace"])
        for pod in self.api.list("Pod"):
            if not pod_facts.job_uid(pod):
                self.api.delete("Pod", pod_facts.name(pod), pod["metadata"]["namespace"], gracePeriodSeconds=0)
        self.ensure_controller()
        self.wait_for(lambda: not self.leftovers(), lambda: f"left after all jobs were deleted: {', '.join(self.leftovers()[:5])}", 45.0)
        if self.direct:
            commit_mode.wait_until_closed(self)
        self.check()

    def leftovers(self):
        left = [f"TrainingJob {job['metadata']['name']}" for job in self.jobs.all()]
        left += [f"Pod {pod_facts.name(pod)}" for pod in self.pods.all()]
        left += [f"Service {service['metadata']['name']}" for service in self.services.all() if not _of_the_installation(service)]
        return left

    def force_clean(self):
        """After a failed scenario: whatever it takes, so that the next one starts clean."""
        for pod in self.api.list("Pod"):
            self.api.delete("Pod", pod_facts.name(pod), pod["metadata"]["namespace"], gracePeriodSeconds=0)
        for each in self.controllers:
            each.kill()
        self.ensure_controller()
        self.pod_watch.take_violations(), self.job_watch.take_violations()
        self.wait_for(lambda: not self.leftovers(), lambda: f"cannot be removed: {', '.join(self.leftovers()[:5])}", 60.0)


def _of_the_installation(item):
    return item["metadata"]["namespace"] in (chart.NAMESPACE, "kube-system") or item["metadata"]["name"] == "kubernetes"
