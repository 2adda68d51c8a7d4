"""The API server or its storage goes away, refuses or is slow: gangs end up whole, the metrics say it, and nobody restarts by hand."""

import contextlib
import json
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

from harness import chart, pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario
from harness.slow_proxy import SlowProxy


# The controller has at most 256 creates in flight: a gang of so many pods is not sent at once.
_MANY_PODS = 384


@contextlib.contextmanager
def half_created(cluster):
    """A gang some of whose pods exist. The controller stands still inside, and goes on afterwards."""
    with cluster.scheduler_paused():
        job = cluster.submit_job("gang", _MANY_PODS, gpusPerPod=1)
        job.wait(job.pods, "first pods")
        cluster.controller.pause()
        try:
            created = settled(lambda: len(cluster.api.list("Pod", cluster.namespace)))
            require(created < _MANY_PODS, f"all {created} pods exist: there is no creation left to be cut")
            yield job
        finally:
            cluster.controller.resume()


def settled(count):
    """`count()` once it stays the same."""
    before, now = None, count()
    while now != before:
        time.sleep(0.3)
        before, now = now, count()
    return now


@contextlib.contextmanager
def half_bound(cluster):
    """A gang of 64 pods that all exist, every second one bound by hand while the scheduler stands still."""
    with cluster.scheduler_paused():
        job = cluster.submit_job("gang", 512)
        job.wait(lambda: len(job.live_pods()) == 64, "64 pods")
        for pod in job.live_pods()[::2]:
            cluster.api.bind(pod_facts.name(pod), pod_facts.pin(pod), cluster.namespace)
        job.wait(lambda: len(job.bound_pods()) == 32, "32 bound pods")
        yield job


def hit_commit(cluster, half_done, component, begin, end, seconds=0):
    """Hurts a component while a gang is half done: it ends up whole, and what was bound stays."""
    with half_done(cluster) as job:
        bound = {pod_facts.uid(pod) for pod in job.bound_pods()}
        cluster.rig.component(component, begin)
    time.sleep(seconds)
    cluster.rig.component(component, end)
    cluster.ensure_controller()
    cluster.rig.restart_clients()
    job.wait_state("Running").require_whole(job.status()["effective"]["pods"])
    require(bound <= {pod_facts.uid(pod) for pod in job.live_pods()}, f"pods that were bound already were replaced: {job.describe()}")
    require_equal(job.restarts["count"], 0, "restarts.count")


@scenario()
def a_restart_of_the_api_server_during_a_commit_leaves_a_whole_gang(cluster):
    hit_commit(cluster, half_bound, "kube-apiserver", "stop", "start")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_killed_api_server_during_a_commit_leaves_a_whole_gang(cluster):
    hit_commit(cluster, half_created, "kube-apiserver", "kill", "start")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_storage_that_stalls_for_5_seconds_during_a_commit_leaves_a_whole_gang(cluster):
    hit_commit(cluster, half_created, "etcd", "pause", "resume", seconds=5)


def lease_transitions(cluster):
    return cluster.api.get("Lease", "asterism-controller", "asterism-system")["spec"].get("leaseTransitions", 0)


def requests(cluster, **labels):
    return cluster.controller.metric("asterism_kube_requests_total", **labels)


class Bystander:
    """A gang that runs all the while: no pod of it may be replaced."""

    def __init__(self, cluster):
        self._job = cluster.run_job("running", 128)
        self._pods = self._uids()

    def _uids(self):
        return {pod_facts.uid(pod) for pod in self._job.live_pods()}

    def require_unharmed(self):
        require_equal(self._uids(), self._pods, "pods of the running job")
        require_equal(self._job.restarts["count"], 0, "restarts.count of the running job")


@scenario(commit=Commit.BOTH_IN_SOAK)
def sixty_seconds_without_api_server_harm_no_running_job_and_delay_a_new_one(cluster):
    bystander, errors = Bystander(cluster), requests(cluster, code="error")
    cluster.rig.component("kube-apiserver", "stop")
    end = time.monotonic() + 60
    time.sleep(10)
    require(not cluster.controller.leads(), "it leads although its Lease is over")
    require_equal(cluster.controller.metric("asterism_leader_election_master_status"), 0, "asterism_leader_election_master_status")
    require(requests(cluster, code="error") > errors, 'asterism_kube_requests_total{code="error"} did not rise')
    time.sleep(end - time.monotonic())
    cluster.rig.component("kube-apiserver", "start")
    cluster.ensure_controller()
    cluster.rig.restart_clients()
    cluster.run_job("late", 128).require_whole(16)
    bystander.require_unharmed()


def schema_of(cluster):
    """Name of the FlowSchema under which a request of the controller falls just now."""
    access = json.loads(Path(cluster.kubeconfig).read_text(encoding="utf-8"))["users"][0]["user"]["token"]
    request = urllib.request.Request(f"{cluster.rig['ASTERISM_RIG_API_URL']}/api/v1/nodes?limit=1", headers={"Authorization": f"Bearer {access}"})
    try:
        with urllib.request.urlopen(request, timeout=10, context=ssl.create_default_context(cafile=cluster.rig["ASTERISM_RIG_CA"])) as answer:
            uid = answer.headers["X-Kubernetes-PF-FlowSchema-UID"]
    except urllib.error.HTTPError as error:
        uid = error.headers["X-Kubernetes-PF-FlowSchema-UID"]
    listed = json.loads(cluster.rig.kubectl("get", "flowschemas", "--output=json"))["items"]
    return next((schema["metadata"]["name"] for schema in listed if schema["metadata"]["uid"] == uid), "")


@contextlib.contextmanager
def refused_for_load(cluster):
    """Inside, the API server takes one request of the controller at a time and answers 429 to all others, but for its Lease."""
    namespace, name = chart.SERVICE_ACCOUNT.split("/")
    account = {"kind": "ServiceAccount", "serviceAccount": {"namespace": namespace, "name": name}}
    everything = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"], "namespaces": ["*"], "clusterScope": True}
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0, "limitResponse": {"type": "Reject"}}
    head = {"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "metadata": {"name": "storm"}}
    objects = [{**head, "kind": "PriorityLevelConfiguration", "spec": {"type": "Limited", "limited": limited}},
               # Between the chart's schema for Leases and that for the rest.
               {**head, "kind": "FlowSchema", "spec": {"priorityLevelConfiguration": {"name": "storm"}, "matchingPrecedence": 200,
                                                       "rules": [{"subjects": [account], "resourceRules": [everything]}]}}]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.rig.kubectl("create", "--filename", "-", text=text)
    try:
        cluster.wait_for(lambda: schema_of(cluster) == "storm", "the API server has taken the storm over")
        yield
    finally:
        cluster.rig.kubectl("delete", "--filename", "-", text=text)


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_storm_of_429_loses_no_job_and_no_lease(cluster):
    bystander, transitions = Bystander(cluster), lease_transitions(cluster)
    with refused_for_load(cluster):
        job = cluster.submit_job("gang", 256, gpusPerPod=1)
        cluster.wait_for(lambda: requests(cluster, code="429") > 10, 'asterism_kube_requests_total{code="429"} rises')
        job.hold_state(15.0, cluster.controller.leads, "a full priority level cost the lead")
    job.wait_state("Running").require_whole(256)
    began = time.monotonic()
    cluster.run_job("after", 64, gpusPerPod=1).require_whole(64)
    print(f"   64 pods run {time.monotonic() - began:.1f} s after they were asked for, after the storm", flush=True)
    require_equal(job.restarts["count"], 0, "restarts.count")
    bystander.require_unharmed()
    require_equal(lease_transitions(cluster), transitions, "leaseTransitions")


@contextlib.contextmanager
def controller_behind(cluster, delay_s):
    """Inside, the controller has a slow way to the API server, and the Lease of the chart: one of 3 s is for tests alone."""
    port, url = cluster.rig.free_ports()[-1], cluster.rig["ASTERISM_RIG_API_URL"]
    slow = cluster.scratch / "slow.kubeconfig"
    slow.write_text(Path(cluster.kubeconfig).read_text(encoding="utf-8").replace(url, f"https://127.0.0.1:{port}"))
    cluster.controller.terminate()
    cluster.controllers.clear()
    controller = cluster.new_controller("slow", kubeconfig=slow)
    for key, seconds in (("leaseDurationSeconds", 15), ("renewDeadlineSeconds", 10), ("retryPeriodSeconds", 2)):
        controller.rewrite_config(rf"{key}: [\d.]+", f"{key}: {seconds}")
    with SlowProxy(port, cluster.rig["ASTERISM_RIG_API_PORT"], delay_s):
        try:
            controller.start().wait_leading(60)
            yield controller
        finally:
            controller.kill()
    cluster.controllers.clear()
    cluster.ensure_controller()


@scenario()
def an_api_server_that_takes_a_second_for_each_call_only_delays(cluster):
    bystander = Bystander(cluster)
    with controller_behind(cluster, delay_s=1.0) as controller:
        transitions = lease_transitions(cluster)
        job = cluster.submit_job("gang", 256)
        job.wait_state("Running", 120).require_whole(32)
        failing = cluster.run_job("fails", 32, 120)
        failing.annotate_pod(1, exit_code="3")
        failing.wait_restarted(timeout_s=120)
        require_equal(lease_transitions(cluster), transitions, "leaseTransitions")
        for verb in ("create", "patch"):
            seconds, count = (controller.metric(f"asterism_kube_request_seconds_{what}", verb=verb) for what in ("sum", "count"))
            require(seconds >= count > 0, f"asterism_kube_request_seconds: {count} calls of {verb} took {seconds} s")
        require_equal(job.restarts["count"], 0, "restarts.count")
        job.delete().wait_gone(120)
    bystander.require_unharmed()


@contextlib.contextmanager
def full_storage(cluster):
    """Inside, etcd has no room and takes no write."""
    def alarm(action):
        body = json.dumps({"action": action, "memberID": "1", "alarm": "NOSPACE"}).encode()
        with urllib.request.urlopen(f"{cluster.rig['ASTERISM_RIG_ETCD_URL']}/v3/maintenance/alarm", body, timeout=10):
            pass
    alarm("ACTIVATE")
    try:
        yield
    finally:
        alarm("DEACTIVATE")


@scenario()
def a_full_storage_costs_the_lead_and_no_job(cluster):
    bystander = Bystander(cluster)
    job = cluster.submit_job("gang", 256)
    with full_storage(cluster):
        cluster.wait_for(lambda: not cluster.controller.leads(), "the leader steps down where its Lease cannot be written")
        require(requests(cluster, code="500") > 0, 'asterism_kube_requests_total{code="500"} did not rise')
        require_equal(cluster.controller.metric("asterism_leader_election_master_status"), 0, "asterism_leader_election_master_status")
    cluster.ensure_controller()
    cluster.rig.restart_clients()
    job.wait_state("Running").require_whole(32)
    require_equal(job.restarts["count"], 0, "restarts.count")
    bystander.require_unharmed()
