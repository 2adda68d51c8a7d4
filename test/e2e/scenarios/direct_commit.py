"""The operator binds by itself: `commit: Direct` on nodes that a taint closes to everybody else."""

from harness import pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario
from scenarios.api_outages import half_created
from scenarios.leadership import pair


@scenario(commit=Commit.DIRECT)
def a_gang_is_committed_without_any_scheduler(cluster):
    with cluster.rig.paused("asterism-scheduler"):
        job = cluster.run_job("direct", 256)
        job.require_whole(32)
        job.annotate_pod(3, exit_code="1")
        job.wait_restarted()
        job.require_whole(32)
    require(not job.condition("CommitFallback"), f"it fell back: {job.condition('CommitFallback')}")


@scenario(commit=Commit.DIRECT)
def what_needs_the_scheduler_is_left_to_it_and_says_so(cluster):
    template = {"spec": {"topologySpreadConstraints": [{"maxSkew": 64, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                                                        "labelSelector": {}}]}}
    with cluster.rig.paused("asterism-scheduler"):
        job = cluster.submit_job("spread", 32, template=template)
        job.wait(lambda: len(job.live_pods()) == 4, "its pods are created")
        job.hold_state(2.0, lambda: job.status()["pods"].get("bound", 0) == 0, "nobody may bind it but the paused kube-scheduler")
    job.wait_state("Running").require_whole(4)
    require("topologySpreadConstraints" in job.condition("CommitFallback")["message"], f"the reason: {job.condition('CommitFallback')}")


@scenario(commit=Commit.DIRECT)
def a_controller_killed_during_a_direct_commit_leaves_a_whole_gang(cluster):
    with cluster.rig.paused("asterism-scheduler"):
        for number in range(3):
            job = cluster.submit_job(f"killed-{number}", 256)
            job.wait(lambda: len(job.live_pods()) >= 4 + 8 * number, "some of its pods are created")
            cluster.controller.kill()
            cluster.controller.start()
            cluster.controller.wait_leading()
            job.wait_state("Running").require_whole(32)
            require_equal(job.status()["placement"]["epoch"], 1, "epoch")
            job.delete()
            cluster.wait_for(lambda: not job.live_pods(), "its pods are gone")


@scenario(commit=Commit.DIRECT)
def the_standby_finishes_the_direct_commit_in_whose_middle_the_leader_stops(cluster):
    with pair(cluster) as (leader, standby):
        with half_created(cluster) as job:
            created = {pod_facts.uid(pod) for pod in job.live_pods()}
            standby.wait_leading(15.0)
            job.wait_state("Running").require_whole(384)
            require(created <= {pod_facts.uid(pod) for pod in job.live_pods()}, f"pods that existed were replaced: {job.describe()}")
            require_equal((job.restarts["count"], job.epoch), (0, 1), "restarts.count, epoch")
            # Who comes back must bind no pod of a gang that is gone, on nodes that somebody else has.
            job.delete().wait_gone()
            other = cluster.run_job("other", 512)
            pods = {pod_facts.uid(pod) for pod in other.live_pods()}
        cluster.wait_for(lambda: not (leader.running() and leader.leads()), "who comes back does not lead")
        other.hold_state(2.0, lambda: {pod_facts.uid(pod) for pod in cluster.pods.all()} == pods, "a pod came or went")
        cluster.check()


@scenario(commit=Commit.DIRECT)
def nodes_that_go_in_the_middle_of_a_direct_commit_leave_no_half_gang(cluster):
    with half_created(cluster) as job:
        with_pod, without = job.blocks()[0][1], job.blocks()[-1][1]
        require(with_pod in job.nodes() and without not in job.nodes(), f"not half created: {job.describe()}")
        cluster.delete_node(with_pod)
        cluster.delete_node(without)
    job.wait_state("Running").require_whole(384)
    require(not {with_pod, without} & set(job.nodes()), "a pod runs on a node that is gone")
    require_equal(job.restarts.get("counted", 0), 0, "restarts.counted")


@scenario(commit=Commit.DIRECT)
def a_kubelet_that_refuses_a_pod_moves_its_block_only(cluster):
    job = cluster.submit_job("gang", 32, behaviour={"hang": "true"})
    job.wait(lambda: len(job.bound_pods()) == 4, "4 bound pods, none of which runs")
    before = {pod_facts.ranks(pod)[0]: pod for pod in job.live_pods()}
    victim = pod_facts.node(before[16])
    job.annotate(before[16], refuse="OutOfnvidia.com/gpu", hang=None)
    job.wait(lambda: len(job.bound_pods()) == 4 and victim not in job.nodes(), "the block has moved")
    for pod in job.live_pods():
        job.annotate(pod, hang=None)
    job.wait_state("Running").require_whole(4)
    after = {pod_facts.ranks(pod)[0]: pod for pod in job.live_pods()}
    require_equal([rank for rank, pod in before.items() if pod_facts.uid(after[rank]) != pod_facts.uid(pod)], [16], "first ranks of pods that were replaced")
    require(pod_facts.epoch(after[16]) > pod_facts.epoch(before[16]), "the moved block keeps its epoch")
    require_equal(job.restarts["count"], 0, "restarts.count")


@scenario(soak=True, commit=Commit.DIRECT)
def a_node_cordoned_in_the_middle_of_a_direct_commit_takes_no_more_pods(cluster):
    with half_created(cluster) as job:
        node = job.blocks()[-1][1]
        require(node not in job.nodes(), f"not half created: {job.describe()}")
        cluster.cordon(node)
    job.wait_state("Running").require_whole(384)
    require(node not in job.nodes(), "a pod runs on a node that was cordoned before any of its pods was made")
    require_equal(job.restarts["count"], 0, "restarts.count")
