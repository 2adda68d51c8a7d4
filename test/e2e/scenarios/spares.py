"""GPUs that are kept for a job in case it loses a node."""

from harness import command_line, placement
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario


def spares(job):
    return placement.spares(job.status())


@scenario(commit=Commit.BOTH_IN_SOAK)
def spares_outlive_the_controller_and_take_the_place_of_a_lost_node(cluster):
    job = cluster.run_job("train", 60 * 8, failover={"spares": 2}).require_whole(60)
    kept = spares(job)
    require_equal((len(kept), len(set(kept) & set(job.nodes()))), (2, 0), "spares, and those on nodes of the gang")
    late = cluster.submit_job("late", 24).wait_waiting("NoCapacity")
    cluster.controller.kill()
    cluster.ensure_controller()
    cluster.check()
    require_equal(spares(job), kept, "spares after a restart of the controller")
    tool = command_line.CommandLine(cluster)
    require("spares" in tool.run("explain", "train", "-n", cluster.namespace).out, "explain tells no spares")
    require("16 spare" in tool.run("topology", *tool.direct, "--level", "cluster").out, "topology tells no spares")
    require_equal(cluster.controller.metric("asterism_gpus", state="spare"), 16, 'asterism_gpus{state="spare"}')
    late.delete().wait_gone()
    for node in job.nodes()[:3]:
        cluster.delete_node(node)
    job.wait(lambda: job.restarts["count"] >= 1 and job.state == "Running" and len(job.bound_pods()) == 60, "it runs again, without the three nodes")
    job.wait(lambda: len(spares(job)) == 1, "one of 61 nodes is left for a spare")
    cluster.restore_deleted_nodes()
    job.wait(lambda: len(spares(job)) == 2, "the second spare is there again")
    cluster.check()
    job.delete().wait_gone()
    cluster.wait_for(lambda: cluster.controller.metric("asterism_gpus", state="spare") == 0, "spares go with their job")
