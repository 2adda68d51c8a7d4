"""Gangs of all sizes are placed whole, in as few supernodes as hold them, with the shortest ring over the ranks."""

from harness import placement, pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import LARGE, scenario


def require_tight(cluster, job, pods):
    """On an empty cluster: the fewest supernodes, the fewest ring cuts, and a status that says so."""
    domains = placement.supernodes(cluster.nodes.all(), job.nodes())
    fewest = -(-pods // cluster.rig.nodes_per_supernode)
    require_equal(len(set(domains)), fewest, f"supernodes of {pods} pods")
    cuts = placement.ring_cuts(domains)
    require_equal(cuts, fewest if fewest > 1 else 0, f"ring cuts of {pods} pods over supernodes {domains[:12]}")
    level = next(each for each in job.status()["placement"]["levels"] if each["level"] == "supernode")
    require_equal((level["domains"], level.get("ringCuts", 0), level.get("ringCutsMinimum", 0)), (fewest, cuts, cuts),
                  "status.placement.levels of the supernode (domains, ringCuts, ringCutsMinimum)")


def place_and_remove(cluster, pods):
    job = cluster.run_job(f"gang-{pods}", pods * cluster.rig.gpus_per_node).require_whole(pods)
    status = job.status()
    require_equal(status["pods"], {"desired": pods, "bound": pods, "running": pods, "succeeded": 0, "failed": 0}, "status.pods")
    require_equal(status["placed"], f"{pods}/{pods}", "status.placed")
    for stage in ("queuedMilliseconds", "decideMicroseconds", "commitMilliseconds", "startMilliseconds"):
        require(stage in status["timings"], f"status.timings has no {stage}: {status['timings']}")
    require_tight(cluster, job, pods)
    cluster.check()
    job.delete().wait_gone()


@scenario()
def gangs_of_1_8_and_64_pods_are_placed_whole_and_tight(cluster):
    for pods in (1, 8, 64):
        place_and_remove(cluster, pods)


@scenario(nodes=LARGE)
def a_gang_of_512_pods_is_placed_whole_and_tight(cluster):
    place_and_remove(cluster, 512)


@scenario(nodes=LARGE)
def a_gang_of_1280_pods_is_placed_whole_and_tight(cluster):
    place_and_remove(cluster, 1280)


@scenario()
def a_gang_goes_to_the_supernode_with_the_least_room_that_holds_it(cluster):
    first = cluster.run_job("first", 8)
    broken = placement.supernodes(cluster.nodes.all(), first.nodes())[0]
    fits = cluster.run_job("fits", 24)
    require_equal(set(placement.supernodes(cluster.nodes.all(), fits.nodes())), {broken}, "supernodes of 3 pods where one has 3 nodes left")
    whole = cluster.run_job("whole", 32)
    domains = set(placement.supernodes(cluster.nodes.all(), whole.nodes()))
    require(len(domains) == 1 and broken not in domains, f"4 pods went to {domains}, {broken} was full")


@scenario()
def small_pods_share_nodes(cluster):
    job = cluster.run_job("quarter", 32, gpusPerPod=2)
    require_equal(len(job.live_pods()), 16, "pods of 2 GPUs")
    require_equal(len(set(job.nodes())), 4, "nodes of 32 GPUs in pods of 2")
    require_equal(len(set(placement.supernodes(cluster.nodes.all(), job.nodes()))), 1, "supernodes")
    require_equal([pod_facts.ranks(pod) for pod in job.live_pods()], [(rank, rank + 1) for rank in range(0, 32, 2)], "ranks")


@scenario()
def the_twelve_line_example_runs(cluster):
    cluster.create_namespace("research")
    cluster.rig.kubectl("apply", "--filename", str(cluster.examples / "queue.yaml"))
    cluster.defer(lambda: cluster.api.delete("Queue", "research"))
    cluster.rig.kubectl("apply", "--filename", str(cluster.examples / "llama-512.yaml"))
    job = cluster.adopt("llama", "research").wait_state("Running").require_whole(64)
    require_tight(cluster, job, 64)
    require_equal(pod_facts.environment(job.live_pods()[0])["WORLD_SIZE"], "512", "WORLD_SIZE")
    require_equal(job.status()["effective"]["class"], "Pretraining", "the class comes from the queue")
    usage = cluster.wait_for(lambda: (cluster.api.get("Queue", "research").get("status") or {}).get("used") == 512, "Queue research uses 512 GPUs")
    require(usage, "queue usage")
