"""Who binds the pods of gangs on a cluster: kube-scheduler, or the operator itself (`commit: Direct`), by upgrades of the chart.

  commit_mode.switch_to_direct(cluster)     # all nodes are closed by the taint then
  commit_mode.switch_back(cluster)
"""

from harness import chart, places
from harness.failure import require

_TAINT = "asterism.dev/managed"
# As docs/operations.md says.
_OPEN_NODES = ("taint", "nodes", "--all", f"{_TAINT}:NoSchedule-")


def open_nodes(cluster):
    """Names of the nodes on which other schedulers may put pods."""
    return [node["metadata"]["name"] for node in cluster.nodes.all()
            if not any(taint["key"] == _TAINT for taint in node["spec"].get("taints", []))]


def wait_until_closed(cluster):
    cluster.wait_for(lambda: not open_nodes(cluster), lambda: f"all nodes are closed; not so {open_nodes(cluster)[:5]}")


def switch_to_direct(cluster):
    _upgrade(cluster, taint="true", commit="Direct")
    cluster.direct = True
    wait_until_closed(cluster)


def switch_back(cluster):
    _upgrade(cluster, taint="false", commit="Scheduler")
    cluster.direct = False
    require(not open_nodes(cluster), "the taint stays until somebody takes it off")
    cluster.rig.kubectl(*_OPEN_NODES)


def _upgrade(cluster, taint, commit):
    cluster.rig.helm("upgrade", "asterism", places.CHART, "--namespace", chart.NAMESPACE, "--reuse-values",
                     "--set", f"config.taintNodes={taint},config.commit={commit}")
    cluster.config = chart.configuration(cluster.rig)
    for each in cluster.controllers:
        each.terminate()
    cluster.controllers.clear()
    cluster.ensure_controller()
