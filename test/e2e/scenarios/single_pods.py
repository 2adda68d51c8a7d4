"""GPU pods of other people that name our scheduler: they fill broken supernodes first, and nobody gets a GPU twice."""

from harness import jobs, placement, pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario


def bound(cluster, prefix):
    return [pod for pod in cluster.pods.all() if pod_facts.name(pod).startswith(prefix) and pod_facts.node(pod)]


def scheduled(cluster, name):
    """Status of the pod's condition PodScheduled; None where it has none yet."""
    pod = cluster.pods.get(name, cluster.namespace) or {}
    return next((each["status"] for each in pod.get("status", {}).get("conditions", []) if each["type"] == "PodScheduled"), None)


@scenario(commit=Commit.BOTH_IN_SOAK)
def single_pods_fill_a_broken_supernode_first(cluster):
    gang = cluster.run_job("breaks-one", 8)
    broken = placement.supernodes(cluster.nodes.all(), gang.nodes())[0]
    for number in range(6):
        cluster.create_pod(f"single-{number}", gpus=4, scheduler=jobs.SCHEDULER)
    cluster.wait_for(lambda: len(bound(cluster, "single-")) == 6, "6 pods of 4 GPUs are bound")
    nodes = [pod_facts.node(pod) for pod in bound(cluster, "single-")]
    require_equal(set(placement.supernodes(cluster.nodes.all(), nodes)), {broken}, "supernodes of 24 GPUs where a broken one has 24")


@scenario(commit=Commit.BOTH)
def single_pods_and_gangs_together_never_double_book(cluster):
    for number in range(60):
        cluster.create_pod(f"single-{number:02}", gpus=1 + number % 4, scheduler=jobs.SCHEDULER)
        if number % 10 == 5:
            cluster.submit_job(f"gang-{number:02}", 64)
    cluster.wait_for(lambda: len(bound(cluster, "single-")) == 60, lambda: f"60 single pods are bound, {len(bound(cluster, 'single-'))} are")
    cluster.wait_for(lambda: all(job.get("status", {}).get("state") == "Running" or job.get("status", {}).get("waiting") for job in cluster.jobs.all()),
                     "every gang runs or waits")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_full_cluster_keeps_single_pods_pending(cluster):
    cluster.fill(free_nodes=0)
    cluster.create_pod("late", gpus=1, scheduler=jobs.SCHEDULER)
    cluster.wait_for(lambda: scheduled(cluster, "late") == "False", "the pod is unschedulable")
    require(not bound(cluster, "late"), "it is bound to a full cluster")
