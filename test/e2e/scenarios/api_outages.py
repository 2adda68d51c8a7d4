"""The API server or its storage goes away in the middle of things: gangs end up whole, and nobody restarts by hand."""

import threading
import time

from harness.failure import require
from harness.scenario import scenario


def start_commit(cluster, name="gang"):
    """A gang of 64 pods whose pods have just begun to appear."""
    job = cluster.submit_job(name, 512)
    job.wait(job.pods, "first pods")
    return job


def recover(cluster):
    """The controller must have lived through it, and leads again."""
    cluster.ensure_controller()


@scenario()
def a_restart_of_the_api_server_during_a_commit_leaves_a_whole_gang(cluster):
    job = start_commit(cluster)
    cluster.rig.component("kube-apiserver", "restart")
    recover(cluster)
    job.wait_state("Running").require_whole(64)


@scenario()
def a_killed_api_server_during_a_commit_leaves_a_whole_gang(cluster):
    job = start_commit(cluster)
    cluster.rig.component("kube-apiserver", "kill")
    cluster.rig.component("kube-apiserver", "start")
    recover(cluster)
    job.wait_state("Running").require_whole(64)


@scenario()
def ten_seconds_without_api_server_harm_no_running_job_and_delay_a_new_one(cluster):
    running = cluster.run_job("running", 128)
    pods = {pod["metadata"]["uid"] for pod in running.pods()}
    cluster.rig.component("kube-apiserver", "stop")
    time.sleep(10)
    cluster.rig.component("kube-apiserver", "start")
    recover(cluster)
    cluster.rig.restart_clients()
    late = cluster.run_job("late", 128)
    late.require_whole(16)
    require({pod["metadata"]["uid"] for pod in running.live_pods()} == pods, "pods of the running job were replaced")
    require(running.restarts["count"] == 0, f"it restarted: {running.describe()}")


@scenario()
def a_storage_that_stalls_for_5_seconds_during_a_commit_leaves_a_whole_gang(cluster):
    # The store of the test must not read while etcd is paused, so the rig's command runs beside.
    job = start_commit(cluster)
    cluster.rig.component("etcd", "pause")
    timer = threading.Timer(5.0, lambda: cluster.rig.component("etcd", "resume"))
    timer.start()
    timer.join()
    recover(cluster)
    job.wait_state("Running").require_whole(64)
