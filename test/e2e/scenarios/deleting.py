"""A job that is deleted leaves nothing, whatever it was doing."""

from harness import pods as pod_facts
from harness.failure import require
from harness.scenario import Commit, scenario


@scenario()
def deleting_a_waiting_job_leaves_nothing(cluster):
    job = cluster.submit_job("never", 65 * 8).wait_waiting("NeverFits")
    job.delete().wait_gone()


@scenario(commit=Commit.BOTH)
def deleting_a_job_as_soon_as_it_is_placed_leaves_nothing(cluster):
    for number in range(5):
        job = cluster.submit_job(f"placed-{number}", 256)
        job.wait(job.blocks, "placed")
        job.delete().wait_gone()


@scenario(commit=Commit.BOTH_IN_SOAK)
def deleting_a_job_that_is_placed_and_has_no_pods_leaves_nothing(cluster):
    # After a restart it has new homes, and no pods until the back-off ends.
    job = cluster.run_job("backing-off", 32, cpu=8, memory="64Gi", failurePolicy={"backoffSeconds": 120, "maxRestarts": 3})
    job.annotate_pod(1, exit_code="3")
    job.wait(lambda: job.restarts["count"] == 1 and job.blocks() and not job.live_pods(), "placed again, without pods")
    cluster.check()
    job.delete().wait_gone()


@scenario(commit=Commit.BOTH)
def deleting_a_half_created_gang_leaves_nothing(cluster):
    for number in range(3):
        job = cluster.submit_job(f"half-{number}", 512)
        job.wait(job.pods, "first pods")
        job.delete().wait_gone()


@scenario(commit=Commit.BOTH_IN_SOAK)
def deleting_a_bound_gang_leaves_nothing(cluster):
    job = cluster.submit_job("bound", 128, behaviour={"hang": "true"})
    job.wait(lambda: len(job.bound_pods()) == 16, "16 bound pods")
    require(job.state != "Running", f"its pods hang: {job.describe()}")
    job.delete().wait_gone()


@scenario(commit=Commit.BOTH_IN_SOAK)
def deleting_a_running_gang_leaves_nothing(cluster):
    job = cluster.run_job("running", 256)
    job.delete().wait_gone()


@scenario(commit=Commit.BOTH_IN_SOAK)
def deleting_in_the_foreground_leaves_nothing(cluster):
    job = cluster.run_job("foreground", 64)
    job.delete(propagationPolicy="Foreground").wait_gone()


@scenario(commit=Commit.BOTH_IN_SOAK)
def pods_that_take_long_to_end_keep_their_gpus_until_they_are_gone(cluster):
    job = cluster.run_job("slow", 512, behaviour={"stop-seconds": 4})
    next_job = cluster.submit_job("next", 512)
    next_job.wait_waiting("NoCapacity")
    job.delete()
    next_job.wait_state("Running").require_whole(64)
    require(not [pod for pod in cluster.pods.all() if pod_facts.job_uid(pod) == job.uid], "old pods are there although the next job runs")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_job_created_again_under_its_name_does_not_meet_its_old_pods(cluster):
    first = cluster.run_job("again", 64, behaviour={"stop-seconds": 3})
    old = {pod_facts.name(pod) for pod in first.pods()}
    first.delete()
    cluster.wait_for(lambda: first.object() is None, "the object is gone")
    second = cluster.submit_job("again", 64).wait_state("Running").require_whole(8)
    require(not old & {pod_facts.name(pod) for pod in second.pods()}, "names of pods are used again")
    first.wait(lambda: not first.pods(), "old pods go")
