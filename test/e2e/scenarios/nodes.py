"""Nodes that go, close or fill up: a gang is moved, restarted elsewhere, or waits. Never half of one."""

from harness import pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario


def pinned_gang(cluster, name, pods):
    job = cluster.submit_job(name, pods * 8)
    job.wait(lambda: len(job.live_pods()) == pods, f"{pods} pods")
    return job


def steal_gpu(cluster, node):
    """A pod of somebody else, put on the node without asking any scheduler."""
    cluster.create_pod("thief", gpus=1, node=node)
    cluster.wait_for(lambda: (thief := cluster.pods.get("thief", cluster.namespace)) and pod_facts.phase(thief) == "Running", "the thief runs")


def require_moved(job, pods, before, victim):
    """The block on `victim` runs elsewhere, under a higher epoch; the others kept their pods."""
    job.wait_state("Running").require_whole(pods)
    require(victim not in job.nodes(), f"a pod runs on {victim}")
    after = {pod_facts.ranks(pod)[0]: pod for pod in job.live_pods()}
    moved = [rank for rank, pod in before.items() if pod_facts.uid(after[rank]) != pod_facts.uid(pod)]
    require_equal(moved, [rank for rank, pod in before.items() if pod_facts.pin(pod) == victim], "first ranks of pods that were replaced")
    for rank in moved:
        require(pod_facts.epoch(after[rank]) > pod_facts.epoch(before[rank]), "a moved block keeps its epoch")
    require_equal(job.restarts["count"], 0, "a move before the bind is no restart; restarts.count")


@scenario()
def a_node_deleted_before_the_bind_moves_its_block_only(cluster):
    with cluster.scheduler_paused():
        job = pinned_gang(cluster, "gang", 4)
        before = {pod_facts.ranks(pod)[0]: pod for pod in job.live_pods()}
        victim = pod_facts.pin(before[8])
        cluster.delete_node(victim)
    require_moved(job, 4, before, victim)


@scenario()
def a_node_cordoned_before_the_bind_moves_its_block_only(cluster):
    with cluster.scheduler_paused():
        job = pinned_gang(cluster, "gang", 4)
        before = {pod_facts.ranks(pod)[0]: pod for pod in job.live_pods()}
        victim = pod_facts.pin(before[16])
        cluster.cordon(victim)
    require_moved(job, 4, before, victim)


@scenario(commit=Commit.BOTH)
def a_node_deleted_under_a_running_gang_restarts_it_elsewhere_uncounted(cluster):
    job = cluster.run_job("gang", 64)
    victim, epoch = job.nodes()[3], job.epoch
    cluster.delete_node(victim)
    job.wait_restarted().require_whole(8)
    require(victim not in job.nodes(), f"a pod runs on {victim}, which is gone")
    require(job.epoch > epoch and min(map(pod_facts.epoch, job.live_pods())) > epoch, f"epoch {job.epoch} after {epoch}")
    last = job.restarts["last"]
    require_equal((last["reason"], last["node"], job.restarts.get("counted", 0)), ("NodeFailure", victim, 0), "reason, node, counted")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_gang_that_loses_its_node_and_finds_no_other_waits_whole(cluster):
    job = cluster.run_job("all", 512)
    cluster.delete_node(job.nodes()[0])
    job.wait(lambda: job.waiting and not job.live_pods(), "waits without pods")
    require(job.waiting["reason"] in ("NoCapacity", "NeverFits"), f"reason {job.waiting}")


@scenario(commit=Commit.BOTH)
def cordoned_nodes_are_avoided_and_running_gangs_stay(cluster):
    running = cluster.run_job("running", 32)
    for node in set(running.nodes()):
        cluster.cordon(node)
    free = [node["metadata"]["name"] for node in cluster.nodes.all() if node["metadata"]["name"] not in running.nodes()]
    for node in free[:20]:
        cluster.cordon(node)
    cluster.wait_for(lambda: sum(bool(node["spec"].get("unschedulable")) for node in cluster.nodes.all()) == 24, "24 cordoned nodes")
    job = cluster.run_job("new", 40 * 8).require_whole(40)
    require(not set(job.nodes()) & set(free[:20] + running.nodes()), "a pod runs on a cordoned node")
    waits = cluster.submit_job("no-room", 8).wait_waiting("NoCapacity")
    require_equal((running.restarts["count"], running.state), (0, "Running"), "the gang on cordoned nodes")
    cluster.cordon(free[0], False)
    waits.wait_state("Running")


@scenario(commit=Commit.BOTH_IN_SOAK)
def nodes_that_are_not_ready_are_avoided(cluster):
    for number in range(32):
        name = f"gpu-{number:04}"
        cluster.api.patch("Node", name, {"metadata": {"annotations": {"rig.asterism.dev/not-ready": "true"}}})
        cluster.defer(lambda name=name: cluster.api.patch("Node", name, {"metadata": {"annotations": {"rig.asterism.dev/not-ready": None}}}))
    def not_ready():
        return sum(condition["type"] == "Ready" and condition["status"] != "True"
                   for node in cluster.nodes.all() for condition in node["status"]["conditions"])
    cluster.wait_for(lambda: not_ready() == 32, "32 nodes are not ready")
    job = cluster.run_job("half-cluster", 256).require_whole(32)
    require(not [node for node in job.nodes() if node < "gpu-0032"], f"nodes {job.nodes()}")
    cluster.submit_job("other-half", 256).wait_waiting("NoCapacity")


@scenario(commit=Commit.BOTH_IN_SOAK)
def nodes_without_cpu_are_avoided_and_a_full_cluster_makes_a_gang_wait(cluster):
    for number in range(8):
        cluster.create_pod(f"cpu-{number}", cpu=190, memory="1500Gi", node=f"gpu-{number:04}")
    job = cluster.run_job("needs-cpu", 56 * 8, cpu=8, memory="64Gi").require_whole(56)
    require(not [node for node in job.nodes() if node < "gpu-0008"], "a pod runs on a node without CPU")
    waits = cluster.submit_job("no-cpu", 64, cpu=8)
    waits.wait(lambda: waits.waiting.get("reason") in ("NoCapacity", "Fragmented"), "waits for CPU")
    require("cpu" in waits.waiting["message"].lower(), f"the message does not name the CPU: {waits.waiting['message']!r}")
    little = cluster.run_job("little-cpu", 64, cpu=1)
    little.require_whole(8)


@scenario()
def a_foreign_pod_that_takes_a_gpu_first_makes_the_block_move(cluster):
    with cluster.scheduler_paused():
        job = pinned_gang(cluster, "gang", 4)
        before = {pod_facts.ranks(pod)[0]: pod for pod in job.live_pods()}
        victim = pod_facts.pin(before[0])
        steal_gpu(cluster, victim)
    require_moved(job, 4, before, victim)


@scenario()
def a_foreign_pod_that_takes_the_last_room_makes_the_whole_gang_wait(cluster):
    cluster.fill(free_nodes=4)
    with cluster.scheduler_paused():
        job = pinned_gang(cluster, "gang", 4)
        steal_gpu(cluster, pod_facts.pin(job.live_pods()[2]))
    job.wait(lambda: job.waiting and not job.pods(), "waits without pods")
    require(job.waiting["reason"] in ("BindFailed", "NoCapacity"), f"reason {job.waiting}")
    cluster.check()
    cluster.api.delete("Pod", "thief", cluster.namespace, gracePeriodSeconds=0)
    job.wait_state("Running").require_whole(4)


@scenario(commit=Commit.BOTH)
def a_drained_pod_restarts_its_gang(cluster):
    job = cluster.run_job("gang", 32)
    pod = job.live_pods()[2]
    cluster.cordon(pod_facts.node(pod))
    cluster.api.evict(pod_facts.name(pod), cluster.namespace)
    job.wait_restarted().require_whole(4)
    require_equal((job.restarts["last"]["reason"], job.restarts.get("counted", 0)), ("Preempted", 0), "reason and counted")
    require(pod_facts.node(pod) not in job.nodes(), "it runs on the cordoned node again")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_node_that_joins_takes_a_waiting_gang(cluster):
    cluster.delete_node("gpu-0063")
    cluster.wait_for(lambda: len(cluster.nodes.all()) == 63, "63 nodes")
    job = cluster.submit_job("all", 512).wait_waiting("NeverFits")
    cluster.restore_deleted_nodes()
    job.wait_state("Running").require_whole(64)


@scenario()
def pods_that_nobody_binds_in_time_leave_no_half_gang(cluster):
    # Also shows that the deadline is taken from a changed file while the controller runs; it looks every 10 s.
    log = cluster.controller.log_size()
    cluster.controller.rewrite_config(r"bindDeadlineSeconds: \d+", "bindDeadlineSeconds: 2")
    cluster.defer(lambda: cluster.controller.rewrite_config(r"bindDeadlineSeconds: \d+", "bindDeadlineSeconds: 30"))
    cluster.wait_for(lambda: "bindDeadlineSeconds" in cluster.controller.log_text(log), "the configuration is read again", 20)
    with cluster.scheduler_paused():
        job = cluster.submit_job("gang", 256)
        job.wait(lambda: job.waiting.get("reason") == "BindFailed" and not job.pods(), "BindFailed, without pods")
    job.wait_state("Running", timeout_s=90).require_whole(32)
