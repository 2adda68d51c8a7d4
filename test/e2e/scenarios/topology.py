"""What agents measure becomes the model that gangs are placed by."""

import json
import re

from harness.agents import Agents, measurement
from harness.command_line import CommandLine
from harness.failure import require, require_equal
from harness.scenario import scenario

_NODES_PER_DOMAIN = 8
_DOMAIN_LABEL = "asterism.dev/domain-supernode"


def _uuid(index):
    return f"4a1e7d02-0000-4000-8000-{index // _NODES_PER_DOMAIN:012}"


def _names(cluster):
    return [f"gpu-{index:04}" for index in range(cluster.rig.nodes)]


def _topology(cluster):
    """Empty until the leader has written it."""
    text = cluster.rig.kubectl("get", "clustertopology", "cluster", "--ignore-not-found", "--output", "json")
    return json.loads(text).get("status", {}) if text.strip() else {}


def _labels(cluster):
    return {node["metadata"]["name"]: node["metadata"]["labels"].get(_DOMAIN_LABEL) for node in cluster.nodes.all()}


def _tell(cluster, agents, move=0):
    """Every agent tells its node's NVLink domain. Returns the labels that nodes are to carry then."""
    domains = {name: _uuid(index + move) for index, name in enumerate(_names(cluster))}
    agents.tell({name: measurement(uuid) for name, uuid in domains.items()})
    return {name: f"{uuid}.1" for name, uuid in domains.items()}


def _confirm_what_is_held(cluster):
    """The operator's way: the id stands in the anomaly. False where nothing is held."""
    held = next((each for each in _topology(cluster).get("anomalies", []) if each.startswith("mass-change-held")), None)
    if held:
        change = re.search(r"\(change ([0-9a-f]+)\)", held).group(1)
        cluster.rig.kubectl("annotate", "--overwrite", "clustertopology", "cluster", f"asterism.dev/confirm-change={change}")
    return bool(held)


def _begin(cluster, agents):
    """From what is declared to what is measured: a few nodes at a time pass by themselves, many need the operator."""
    wanted = _tell(cluster, agents)

    def settled():
        return _labels(cluster) == wanted or (_confirm_what_is_held(cluster) and False)
    cluster.wait_for(settled, "every node carries the domain that its agent measures")
    return wanted


@scenario()
def a_gang_is_placed_by_measured_supernodes(cluster):
    agents = Agents(cluster)
    domains = _begin(cluster, agents)
    level = {"levels": [{"level": "supernode", "blockGpus": 8 * _NODES_PER_DOMAIN, "mode": "Required"}]}
    job = cluster.run_job("whole-domain", 8 * _NODES_PER_DOMAIN, placement=level).require_whole(_NODES_PER_DOMAIN)
    require_equal(len({domains[node] for node in job.nodes()}), 1, "NVLink domains of the gang")
    tool = CommandLine(cluster)
    shown = tool.run("topology", *tool.direct).out
    require("measured (NVLink)" in shown, f"the topology does not say what is measured: {shown}")


@scenario()
def a_measured_link_that_goes_down_is_told_in_every_way(cluster):
    agents = Agents(cluster)
    _begin(cluster, agents)
    tool = CommandLine(cluster)
    tool.run("doctor", *tool.direct, code=0)
    agents.tell({"gpu-0003": measurement(_uuid(3), links_down=2)})
    cluster.wait_for(lambda: cluster.controller.metric("asterism_topology_anomalies", kind="nvlink-link-down") >= 1, "the metric counts the link")
    code, doctor = tool.attempt("doctor", *tool.direct)
    require_equal(code, 1, "exit code of doctor")
    require("nvlink-link-down" in doctor and "gpu-0003" in doctor, doctor)
    cluster.wait_for(lambda: "NvlinkLinkDown" in cluster.rig.kubectl("get", "events", "-A", "--field-selector", "involvedObject.name=gpu-0003"),
                     "the node has an event")
    # It is shown, the last choice, and not taken away.
    require_equal(cluster.controller.metric("asterism_topology_nodes", level="node", state="degraded"), 1, "degraded nodes")
    most = cluster.run_job("most", 8 * (cluster.rig.nodes - 1))
    require("gpu-0003" not in most.nodes(), "a gang that fits without it is on the degraded node")
    most.delete().wait_gone()
    cluster.run_job("all", 8 * cluster.rig.nodes)


@scenario()
def a_node_measured_as_unhealthy_takes_no_gang_and_keeps_the_one_it_has(cluster):
    agents = Agents(cluster)
    _begin(cluster, agents)
    running = cluster.run_job("running", 8)
    (home,) = running.nodes()
    index = int(home[-4:])
    agents.tell({home: measurement(_uuid(index), health="UNHEALTHY")})
    cluster.wait_for(lambda: cluster.controller.metric("asterism_topology_nodes", level="node", state="unhealthy") == 1, "the node is unhealthy")
    others = cluster.run_job("others", 8 * (cluster.rig.nodes - 1))
    require(home not in others.nodes(), f"a new gang is on the unhealthy node {home}")
    require_equal(running.state, "Running", "state of the gang on the node")
    running.delete()
    running.wait_gone()
    waits = cluster.submit_job("waits", 8).wait_waiting("NoCapacity")
    agents.tell({home: measurement(_uuid(index))})
    waits.wait_state("Running")


@scenario()
def the_next_leader_has_the_measured_domains_before_any_agent_speaks(cluster):
    agents = Agents(cluster)
    domains = _begin(cluster, agents)
    agents.stop()
    cluster.controller.kill()
    cluster.controller.start().wait_leading()
    page = json.loads(cluster.controller.ask("/topologyz")[1])
    require_equal(page["origins"], {"supernode": {"remembered": cluster.rig.nodes}}, "who says where nodes are")
    names = {domain["name"]: domain["parent"] for domain in page["domains"] if domain["level"] == "node"}
    require_equal(names, domains, "domains of the nodes")
    agents.tell({name: measurement(_uuid(index)) for index, name in enumerate(_names(cluster))})
    cluster.wait_for(lambda: json.loads(cluster.controller.ask("/topologyz")[1]).get("origins") == {"supernode": {"nvlink": cluster.rig.nodes}},
                     "agents have spoken again")
    require_equal(_labels(cluster), domains, "labels")


@scenario()
def a_measured_change_of_many_nodes_waits_for_the_operator(cluster):
    agents = Agents(cluster)
    _begin(cluster, agents)
    # Half a domain further: every second half of a domain would move.
    wanted = _tell(cluster, agents, move=_NODES_PER_DOMAIN // 2)

    cluster.wait_for(lambda: any(each.startswith("mass-change-held") for each in _topology(cluster).get("anomalies", [])), "the change is held")
    require(_labels(cluster) != wanted, "all nodes moved although the change is held")
    require_equal(cluster.controller.metric("asterism_topology_change_held"), 1, "the metric that says so")
    cluster.wait_for(lambda: _labels(cluster) == wanted or (_confirm_what_is_held(cluster) and False), "the confirmed change has passed")
