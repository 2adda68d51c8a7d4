"""A real Prometheus scrapes the controller: its page is clean, its documents are true, no panel of the board is empty."""

import contextlib
import json
import re
import subprocess
import urllib.parse
import urllib.request

from harness import places, processes
from harness.failure import require, require_equal
from harness.scenario import scenario

_MONITORING = places.SOURCE / "charts/asterism/files/monitoring"
_ADDRESS = "127.0.0.1"


def _programs():
    return places.Path(subprocess.run([places.SOURCE / "test/monitoring/prometheus"], check=True, capture_output=True, text=True,
                                      timeout=300).stdout.strip())


class Prometheus:
    """Scrapes one controller every second; its data lies in the scratch folder of the run."""

    def __init__(self, cluster):
        self.port = cluster.rig.free_ports()[-1]
        folder = cluster.scratch / "prometheus"
        folder.mkdir(exist_ok=True)
        (folder / "prometheus.yaml").write_text(json.dumps({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(_MONITORING / "rules.yaml")],
            "scrape_configs": [{"job_name": "asterism", "scheme": "https",
                                "tls_config": {"ca_file": cluster.rig["ASTERISM_EXTENDER_CA"], "server_name": "asterism-extender"},
                                "static_configs": [{"targets": [f"{_ADDRESS}:{cluster.controller.ports['metrics']}"]}]}]}))
        self._process = processes.start([_programs() / "prometheus", f"--config.file={folder / 'prometheus.yaml'}",
                                         f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={_ADDRESS}:{self.port}",
                                         "--log.level=warn"], folder / "prometheus.log")

    def ask(self, path, **parameters):
        """The data of an answer, or what it says went wrong."""
        with urllib.request.urlopen(f"http://{_ADDRESS}:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def up(self):
        with contextlib.suppress(OSError):
            return [target["health"] for target in self.ask("targets")["activeTargets"]] == ["up"]
        return False

    def empty(self, panels):
        """Titles of panels none of whose expressions has a result."""
        return [title for title, expressions in panels if not any(self.ask("query", query=each)["result"] for each in expressions)]

    def stop(self):
        self._process.terminate()
        self._process.wait(timeout=30)


@scenario()
def prometheus_scrapes_the_controller_and_no_panel_is_empty(cluster):
    done = subprocess.run([_programs() / "promtool", "check", "metrics"], input=cluster.controller.ask("/metrics")[1], capture_output=True,
                          text=True, timeout=60, check=False)
    require(done.returncode == 0, f"promtool check metrics: {done.stdout}{done.stderr}")
    prometheus = Prometheus(cluster)
    cluster.defer(prometheus.stop)
    cluster.wait_for(prometheus.up, "Prometheus scrapes the controller")
    cluster.submit_job("done", 32, behaviour={"run-seconds": 1}).wait_state("Succeeded")
    cluster.run_job("train", 64)
    cluster.submit_job("waits", 512).wait_waiting("NoCapacity")
    fails = cluster.run_job("fails", 32)
    fails.annotate_pod(2, exit_code="3")
    fails.wait_restarted()
    panels = []
    for board in _MONITORING.glob("*.json"):
        panels += [(panel["title"], [target["expr"] for target in panel["targets"]]) for panel in json.loads(board.read_text())["panels"]
                   if panel["type"] != "row"]
    require(len(panels) >= 20, f"{len(panels)} panels in the boards")
    # rate() and increase() need two samples of a series.
    cluster.wait_for(lambda: not prometheus.empty(panels), lambda: f"all panels have data; empty are {prometheus.empty(panels)}")
    broken = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"] if rule["health"] != "ok"]
    require(not broken, f"rules that cannot be evaluated: {broken}")


@scenario()
def the_gauges_tell_what_the_cluster_has(cluster):
    cluster.run_job("train", 64)
    cluster.submit_job("waits", 512).wait_waiting("NoCapacity")
    cluster.cordon("gpu-0063")

    def shown():
        metric = cluster.controller.metric
        return {"gpus": [metric("asterism_gpus", state=state) for state in ("free", "held", "faulty")],
                "supernodes": [metric("asterism_domains", level="supernode", state=state) for state in ("free", "partial", "full", "unusable")],
                "largest": [metric("asterism_largest_free_gpus", level=level) for level in ("node", "supernode", "cluster")],
                "waiting": metric("asterism_queue_jobs", reason="NoCapacity")}
    # The cordoned node makes its supernode partly usable: 24 of its 32 GPUs are free.
    expected = {"gpus": [440, 64, 8], "supernodes": [13, 1, 2, 0], "largest": [8, 32, 440], "waiting": 1}
    cluster.wait_for(lambda: shown() == expected, lambda: f"{expected}; shown are {shown()}")


@scenario()
def the_documented_metrics_are_those_of_the_program(cluster):
    names = set(re.findall(r"^# TYPE (\w+) ", cluster.controller.ask("/metrics")[1], re.M))
    documented = set(re.findall(r"^\| `(asterism_\w+)` \|", (places.SOURCE / "docs/metrics.md").read_text(), re.M))
    require_equal(names, documented, "metrics of the program and of docs/metrics.md")
