"""Rules of placement.levels: consecutive blocks of ranks stay inside one domain."""

from harness import placement
from harness.failure import require, require_equal
from harness.scenario import scenario


def foreign_pods_on(cluster, indexes):
    for index in indexes:
        cluster.create_pod(f"foreign-{index}", gpus=8, node=f"gpu-{index:04}")


@scenario()
def required_blocks_stay_inside_one_supernode_each(cluster):
    # Rooms of 3, 4, 3 and 2 nodes, then whole supernodes: only those hold blocks of 4.
    foreign_pods_on(cluster, [0, 8, 12, 13])
    level = {"levels": [{"level": "supernode", "blockGpus": 32, "mode": "Required"}]}
    job = cluster.run_job("blocks", 128, placement=level).require_whole(16)
    domains = placement.supernodes(cluster.nodes.all(), job.nodes())
    for first in range(0, 16, 4):
        require_equal(len(set(domains[first:first + 4])), 1, f"supernodes of the block of pods {first} to {first + 3}: {domains[first:first + 4]}")


@scenario()
def blocks_of_two_pods_use_halves_of_broken_supernodes(cluster):
    foreign_pods_on(cluster, [0, 1, 4, 5])
    level = {"levels": [{"level": "supernode", "blockGpus": 16, "mode": "Required"}]}
    job = cluster.run_job("halves", 60 * 8, placement=level).require_whole(60)
    domains = placement.supernodes(cluster.nodes.all(), job.nodes())
    for first in range(0, 60, 2):
        require_equal(len(set(domains[first:first + 2])), 1, f"supernodes of pods {first} and {first + 1}")


@scenario()
def a_preferred_level_is_given_up_where_there_is_no_room(cluster):
    foreign_pods_on(cluster, range(0, 64, 4))
    level = {"levels": [{"level": "supernode", "blockGpus": 32, "mode": "Preferred"}]}
    cluster.run_job("prefers", 32, placement=level).require_whole(4)


@scenario()
def a_block_larger_than_any_supernode_never_fits(cluster):
    level = {"levels": [{"level": "supernode", "blockGpus": 64, "mode": "Required"}]}
    job = cluster.submit_job("too-large", 64, placement=level).wait_waiting("NeverFits")
    require("supernode" in job.waiting["message"], f"message {job.waiting['message']!r}")


@scenario()
def rooms_of_different_size_are_used_with_the_fewest_supernodes(cluster):
    # 3 free nodes in each of the first 4 supernodes; the rest is taken.
    foreign_pods_on(cluster, [0, 4, 8, 12, *range(16, 64)])
    job = cluster.run_job("seven", 56).require_whole(7)
    domains = placement.supernodes(cluster.nodes.all(), job.nodes())
    require_equal(len(set(domains)), 3, f"supernodes of 7 pods in rooms of 3: {domains}")
    require_equal(placement.ring_cuts(domains), 3, "ring cuts")
