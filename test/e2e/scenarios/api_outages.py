"""The API server or its storage goes away in the middle of things: gangs end up whole, and nobody restarts by hand."""

import contextlib
import time

from harness import pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import scenario


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


@scenario()
def a_killed_api_server_during_a_commit_leaves_a_whole_gang(cluster):
    hit_commit(cluster, half_created, "kube-apiserver", "kill", "start")


@scenario()
def a_storage_that_stalls_for_5_seconds_during_a_commit_leaves_a_whole_gang(cluster):
    hit_commit(cluster, half_created, "etcd", "pause", "resume", seconds=5)


@scenario()
def ten_seconds_without_api_server_harm_no_running_job_and_delay_a_new_one(cluster):
    running = cluster.run_job("running", 128)
    pods = {pod["metadata"]["uid"] for pod in running.pods()}
    cluster.rig.component("kube-apiserver", "stop")
    time.sleep(10)
    cluster.rig.component("kube-apiserver", "start")
    cluster.ensure_controller()
    cluster.rig.restart_clients()
    late = cluster.run_job("late", 128)
    late.require_whole(16)
    require({pod["metadata"]["uid"] for pod in running.live_pods()} == pods, "pods of the running job were replaced")
    require(running.restarts["count"] == 0, f"it restarted: {running.describe()}")
