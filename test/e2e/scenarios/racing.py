"""Gangs that compete for the same room: one gets it, the others wait with a reason, none is half."""

from harness.failure import require, require_equal
from harness.scenario import Commit, scenario


@scenario(commit=Commit.BOTH)
def two_gangs_race_for_the_last_supernode_and_one_waits(cluster):
    cluster.fill(free_nodes=4)
    rivals = [cluster.submit_job(f"rival-{number}", 32) for number in range(2)]
    cluster.wait_for(lambda: sorted(job.state for job in rivals if job.state) == ["Admitted", "Running"],
                     lambda: "one runs and one waits; " + "; ".join(job.describe() for job in rivals))
    winner, loser = sorted(rivals, key=lambda job: job.state != "Running")
    winner.require_whole(4)
    loser.wait_waiting("NoCapacity")
    require(loser.waiting.get("message"), "waiting.message is empty")
    require_equal(loser.pods(), [], "pods of the gang that waits")
    cluster.check()
    winner.delete()
    loser.wait_state("Running").require_whole(4)


@scenario(commit=Commit.BOTH)
def many_gangs_at_once_fill_the_cluster_exactly(cluster):
    gangs = [cluster.submit_job(f"gang-{number:02}", 32) for number in range(20)]
    cluster.wait_for(lambda: sum(job.state == "Running" for job in gangs) == 16 and sum(bool(job.waiting) for job in gangs) == 4,
                     lambda: f"16 run and 4 wait; {[job.state for job in gangs]}")
    cluster.check()
    for job in gangs:
        require(len(job.live_pods()) in (0, 4), f"half a gang: {job.describe()}")
    for job in [job for job in gangs if job.state == "Running"]:
        job.delete()
    cluster.wait_for(lambda: sum(job.state == "Running" for job in gangs) == 4, "the other 4 run when the first are gone")


@scenario()
def a_job_larger_than_the_cluster_never_fits(cluster):
    job = cluster.submit_job("too-large", 65 * 8).wait_waiting("NeverFits")
    message = job.waiting["message"]
    require("520" in message or "65" in message, f"the message does not name what is asked: {message!r}")
    require("512" in message or "64" in message, f"the message does not name what there is: {message!r}")
    require_equal(job.condition("Placed")["status"], "False", "condition Placed")
    require_equal(job.condition("Placed")["reason"], "NeverFits", "reason of the condition Placed")
    require_equal(job.pods(), [], "pods")
    small = cluster.run_job("small", 8)
    small.require_whole(1)          # one that can never run stops nobody


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_gang_that_needs_one_supernode_waits_while_room_is_scattered(cluster):
    # One pod in each of 16 supernodes: 48 nodes are free and no supernode is.
    for number in range(16):
        node = next(node["metadata"]["name"] for node in sorted(cluster.nodes.all(), key=lambda item: item["metadata"]["name"])
                    if node["metadata"]["labels"]["asterism.dev/declared-supernode"] == f"sn-{number:04}")
        cluster.create_pod(f"foreign-{number}", gpus=8, node=node)
    cluster.wait_for(lambda: len(cluster.pods.all()) == 16, "foreign pods are there")
    level = {"levels": [{"level": "supernode", "blockGpus": 32, "mode": "Required"}]}
    job = cluster.submit_job("needs-one", 32, placement=level).wait_waiting("LevelUnavailable")
    require("supernode" in job.waiting["message"], f"the message does not name the level: {job.waiting['message']!r}")
    require_equal(job.pods(), [], "pods")
    cluster.api.delete("Pod", "foreign-7", cluster.namespace, gracePeriodSeconds=0)
    job.wait_state("Running").require_whole(4)


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_gang_of_whole_nodes_waits_while_only_parts_of_nodes_are_free(cluster):
    nodes = [f"gpu-{number:04}" for number in range(64)]
    for node in nodes:
        cluster.create_pod(f"foreign-{node}", gpus=1, node=node)
    cluster.wait_for(lambda: len(cluster.pods.all()) == 64, "foreign pods are there")
    job = cluster.submit_job("whole-nodes", 32).wait_waiting("Fragmented")
    require("8" in job.waiting["message"], f"the message does not name what a node must have: {job.waiting['message']!r}")
    parts = cluster.run_job("parts", 28, gpusPerPod=7).require_whole(4)
    require(job.waiting and not job.pods(), f"no node is wholly free: {job.describe()}")
    freed = [node for node in nodes if node not in parts.nodes()][:4]
    for node in freed:
        cluster.api.delete("Pod", f"foreign-{node}", cluster.namespace, gracePeriodSeconds=0)
    job.wait_state("Running").require_whole(4)
    require_equal(sorted(job.nodes()), freed, "nodes of the gang")


@scenario(commit=Commit.BOTH)
def a_foreign_pod_that_took_a_name_first_leaves_no_half_gang(cluster):
    job = cluster.submit_job("train", 32, suspend=True).wait_state("Suspended")
    foreign = cluster.create_pod(f"train-{job.uid[:5]}-r16-e1")
    withdrawn = cluster.controller.metric("asterism_gangs_withdrawn_total", reason="BindFailed")
    job.patch({"suspend": False})
    job.wait(lambda: cluster.controller.metric("asterism_gangs_withdrawn_total", reason="BindFailed") > withdrawn, "the gang is taken back")
    job.wait_state("Running").require_whole(4)
    require(job.epoch > 1, f"epoch {job.epoch}")
    left = cluster.api.get("Pod", foreign["metadata"]["name"], cluster.namespace)
    require_equal(left and left["metadata"]["uid"], foreign["metadata"]["uid"], "the foreign pod")
