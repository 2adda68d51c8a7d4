"""Agents that speak through the agent of another node: it dies, and nothing is lost."""

import time

from harness.agents import Agents
from harness.failure import require, require_equal
from harness.scenario import scenario

_GPUS = 8
# The budget is a second on a quiet machine, which test/bench/run heartbeats measures.
_REPLACED_LIMIT_S = 30


def _measured():
    return {"gpus": {"gpus": [{"uuid": f"GPU-{gpu}", "product": "simulated", "numaNode": gpu // 4} for gpu in range(_GPUS)]}}


def _with_relays(cluster):
    """The controller as the chart configures it, but that a small cluster has relays too."""
    def restore():
        cluster.controller.terminate()
        cluster.controllers.clear()
        cluster.ensure_controller()
    cluster.defer(restore)
    cluster.controller.terminate()
    cluster.controller.rewrite_config(r"relays: Auto", 'relays: "On"')
    cluster.controller.start().wait_leading()


def _agents(controller):
    return [int(controller.metric(f"asterism_agent{name}")) for name in ("s_attached", "_relays", "_relay_members")]


def _healthy(cluster):
    return cluster.controller.metric("asterism_topology_nodes", level="node", state="healthy")


def _wait_for(cluster, wanted, what):
    cluster.wait_for(lambda: _agents(cluster.controller) == wanted, f"{what}: attached, relays and members are {wanted}")


@scenario()
def members_of_a_killed_relay_speak_through_another_and_no_capacity_is_lost(cluster):
    _with_relays(cluster)
    agents = Agents(cluster, relay_host="127.0.0.1")
    names = [f"gpu-{index:04}" for index in range(cluster.rig.nodes)]
    count = len(names)
    agents.tell({name: _measured() for name in names[:2]}, process="relay")
    _wait_for(cluster, [2, 1, 1], "one of the first two speaks through the other")
    agents.tell({name: _measured() for name in names[2:]}, process="members")
    _wait_for(cluster, [count, 1, count - 1], "all others speak through the same")
    running = cluster.run_job("running", _GPUS * 4)
    cluster.wait_for(lambda: _healthy(cluster) == count, "all nodes are measured")

    agents.kill("relay")
    began = time.monotonic()
    cluster.wait_for(lambda: _agents(cluster.controller) == [count - 2, 1, count - 3], "another relay carries all that are left")
    took = time.monotonic() - began
    require(took < _REPLACED_LIMIT_S, f"the relay was replaced after {took:.1f} s")

    require_equal(_healthy(cluster), count, "healthy nodes")
    require_equal(cluster.controller.metric("asterism_agent_relayed_frames_refused_total"), 0, "refused frames")
    require_equal(running.state, "Running", "state of the job meanwhile")
    cluster.run_job("all-others", _GPUS * (count - 4))
    # New agents on these two nodes are members like any other.
    agents.tell({name: _measured() for name in names[:2]}, process="again")
    _wait_for(cluster, [count, 1, count - 1], "the next agents of the first nodes speak through the second relay")
