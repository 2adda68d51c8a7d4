"""Suspend and resume, deadlines, and jobs that go away by themselves."""

import time

from harness import pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import scenario


@scenario()
def a_suspended_job_gives_its_gpus_back_and_resumes(cluster):
    job = cluster.run_job("pauses", 512)
    epoch = job.epoch
    other = cluster.submit_job("other", 256).wait_waiting("NoCapacity")
    job.patch({"suspend": True})
    job.wait(lambda: job.state == "Suspended" and not job.pods(), "Suspended, without pods")
    require_equal(job.condition("Suspended")["status"], "True", "condition Suspended")
    other.wait_state("Running")
    job.patch({"suspend": False})
    job.wait_waiting("NoCapacity")
    other.delete()
    job.wait_state("Running").require_whole(64)
    require(job.epoch > epoch, f"epoch {job.epoch} after {epoch}")
    require_equal(job.restarts["count"], 0, "a resume is no restart; restarts.count")


@scenario()
def a_job_created_suspended_waits_until_it_is_resumed(cluster):
    job = cluster.submit_job("later", 32, suspend=True).wait_state("Suspended")
    job.hold_state(1.0, lambda: not job.pods(), "it has pods")
    job.patch({"suspend": False})
    job.wait_state("Running").require_whole(4)


@scenario()
def a_waiting_job_can_be_suspended(cluster):
    cluster.fill(free_nodes=0)
    job = cluster.submit_job("waits", 8).wait_waiting("NoCapacity")
    job.patch({"suspend": True})
    job.wait_state("Suspended")
    require(not job.waiting, f"it still waits: {job.waiting}")


@scenario()
def a_suspended_job_may_change_its_size(cluster):
    job = cluster.run_job("resized", 64)
    job.patch({"suspend": True})
    job.wait(lambda: job.state == "Suspended" and not job.pods(), "Suspended, without pods")
    job.patch({"gpus": 32})
    job.patch({"suspend": False})
    job.wait_state("Running").require_whole(4)
    require_equal({pod_facts.environment(pod)["WORLD_SIZE"] for pod in job.live_pods()}, {"32"}, "WORLD_SIZE")


@scenario()
def a_job_past_its_deadline_fails_and_frees_its_gpus(cluster):
    job = cluster.run_job("deadline", 64, activeDeadlineSeconds=3)
    job.wait_state("Failed")
    require_equal(job.condition("Failed")["reason"], "DeadlineExceeded", "reason of the condition Failed")
    job.wait(lambda: not job.live_pods(), "no pod runs on")


@scenario()
def the_deadline_does_not_count_while_a_job_waits(cluster):
    filler = cluster.fill(free_nodes=0)
    job = cluster.submit_job("deadline", 8, activeDeadlineSeconds=4).wait_waiting("NoCapacity")
    time.sleep(5)
    require(job.waiting, f"it does not wait any more: {job.describe()}")
    filler.delete()
    job.wait_state("Running")


@scenario()
def a_finished_job_is_deleted_after_its_ttl(cluster):
    job = cluster.submit_job("short-lived", 8, behaviour={"run-seconds": 0, "end": "true"}, ttlSecondsAfterFinished=2)
    job.wait_state("Succeeded")
    job.wait_gone()


@scenario()
def a_running_job_takes_a_change_of_its_failure_policy(cluster):
    job = cluster.run_job("changes", 16, failurePolicy={"backoffSeconds": 0, "maxRestarts": 3})
    job.patch({"failurePolicy": {"maxRestarts": 0}})
    job.wait(lambda: job.status().get("observedGeneration") == job.object()["metadata"]["generation"], "the change is seen")
    require_equal(job.restarts["count"], 0, "a change of the policy restarts nothing; restarts.count")
    job.annotate_pod(0, exit_code="1")
    job.wait_state("Failed")
