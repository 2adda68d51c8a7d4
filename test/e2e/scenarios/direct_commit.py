"""The operator binds by itself: `commit: Direct` on nodes that a taint closes to everybody else."""

from harness import chart, places
from harness.failure import require, require_equal
from harness.scenario import scenario

_TAINT = "asterism.dev/managed"


def _closed(cluster):
    return [node["metadata"]["name"] for node in cluster.nodes.all()
            if any(taint["key"] == _TAINT for taint in node["spec"].get("taints", []))]


def switch_on(cluster):
    """Upgrades chart and controller to this mode, until the end of the scenario."""
    controller = cluster.controller

    def upgrade(taint, commit):
        cluster.rig.helm("upgrade", "asterism", places.CHART, "--namespace", chart.NAMESPACE, "--reuse-values",
                         "--set", f"config.taintNodes={taint},config.commit={commit}")
        controller.terminate()
        controller.rewrite_config("(?m)^taintNodes: .*$", f"taintNodes: {taint}")
        controller.rewrite_config("(?m)^commit: .*$", f"commit: {commit}")
        controller.start()
        controller.wait_leading()
    upgrade("true", "Direct")

    def back():
        upgrade("false", "Scheduler")
        cluster.rig.kubectl("taint", "nodes", "--all", f"{_TAINT}:NoSchedule-")
    cluster.defer(back)
    cluster.wait_for(lambda: len(_closed(cluster)) == cluster.rig.nodes, lambda: f"all nodes are closed; {len(_closed(cluster))} are")


@scenario()
def a_gang_is_committed_without_any_scheduler(cluster):
    switch_on(cluster)
    with cluster.rig.paused("asterism-scheduler"):
        job = cluster.run_job("direct", 256)
        job.require_whole(32)
        job.annotate_pod(3, exit_code="1")
        job.wait_restarted()
        job.require_whole(32)
    require(not job.condition("CommitFallback"), f"it fell back: {job.condition('CommitFallback')}")


@scenario()
def what_needs_the_scheduler_is_left_to_it_and_says_so(cluster):
    switch_on(cluster)
    template = {"spec": {"topologySpreadConstraints": [{"maxSkew": 64, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                                                        "labelSelector": {}}]}}
    with cluster.rig.paused("asterism-scheduler"):
        job = cluster.submit_job("spread", 32, template=template)
        job.wait(lambda: len(job.live_pods()) == 4, "its pods are created")
        job.hold_state(2.0, lambda: job.status()["pods"].get("bound", 0) == 0, "nobody may bind it but the paused kube-scheduler")
    job.wait_state("Running").require_whole(4)
    require("topologySpreadConstraints" in job.condition("CommitFallback")["message"], f"the reason: {job.condition('CommitFallback')}")


@scenario()
def a_controller_killed_during_a_direct_commit_leaves_a_whole_gang(cluster):
    switch_on(cluster)
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
