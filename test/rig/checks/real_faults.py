"""Real nodes that are cut off, slowed, paused, killed, and whose programs are killed: the cluster sees it, and pods live on where they should."""

import time
from pathlib import Path

from checks.harness import require, wait_until
from checks.real_pods import Pods
from rig import processes
from rig.real import cgroups, footprint

NODE = "real-1"
_LOST_S = 60.0
# Into a volume: what a program prints goes through containerd.
_COUNT = "import time\nwhile True: print(time.time(), file=open('/count/file', 'a')); time.sleep(0.1)"
_SEND = """
import socket
server = socket.create_server(('', 9000))
while True:
    connection, _ = server.accept()
    connection.sendall(bytes(1 << 20))
    connection.close()
"""
_RECEIVE = """
import socket, time
began = time.monotonic()
connection = socket.create_connection(('{address}', 9000), timeout=20)
size = 0
while chunk := connection.recv(65536): size += len(chunk)
print(size, time.monotonic() - began)
"""


class RealFaultChecks:
    """Expects the rig that `RealPodChecks` has used, started with a short --node-grace."""

    def __init__(self, harness, rig_name):
        self.harness = harness
        self.rig_name = rig_name
        self.client = harness.client(rig_name)
        self.pods = Pods(self.client)
        self.container = None
        self.file = None    # what the pod writes, as this machine sees it

    def node(self, *arguments, **named):
        return self.harness.run("node", self.rig_name, NODE, *arguments, **named)

    def await_ready(self, status):
        wait_until(lambda: self.pods.ready_condition(NODE) == status, f"{NODE} has Ready={status}", _LOST_S)

    def start_counter(self):
        self.pods.create("counts", ["python3", "-c", _COUNT], NODE, restart="Always",
                         tolerations=[{"operator": "Exists", "effect": "NoExecute"}], volumes=[{"name": "count", "emptyDir": {}}],
                         container={"volumeMounts": [{"name": "count", "mountPath": "/count"}]})
        found = self.pods.await_phase("counts", "Running")
        folder = self.harness.folder(self.rig_name) / "nodes" / NODE / "root/var/lib/kubelet/pods" / found["metadata"]["uid"]
        self.file = folder / "volumes/kubernetes.io~empty-dir/count/file"
        wait_until(self.file.exists, "the pod writes")
        self.container = found["status"]["containerStatuses"][0]["containerID"]

    def _counts(self):
        """Whether the pod writes just now; the API server need not reach it."""
        size = self.file.stat().st_size
        time.sleep(0.5)
        return self.file.stat().st_size > size

    def require_same_container(self):
        require(self._counts(), "the pod does not go on")
        status = self.pods.get("counts")["status"]["containerStatuses"][0]
        require(status["containerID"] == self.container and status["restartCount"] == 0, f"the container was started again: {status}")

    def cut_and_joined(self):
        self.start_counter()
        self.node("cut")
        require("cut off" in self.node("status"), "status does not say so")
        began = time.monotonic()
        self.await_ready("Unknown")
        seconds = time.monotonic() - began
        require(self._counts(), "a cut link stopped the pod")
        require(self.pods.get("counts")["status"]["phase"] == "Running", "its pod counts as ended")
        self.harness.run("status", "--name", self.rig_name, expect=1)
        self.node("join")
        self.await_ready("True")
        self.require_same_container()
        return f"seen after {seconds:.1f} s"

    def slowed(self):
        self.pods.create("sends", ["python3", "-c", _SEND], NODE)
        address = self.pods.await_phase("sends", "Running")["status"]["podIP"]

        def seconds(name):
            size, taken = self.pods.output(name, _RECEIVE.format(address=address), "real-0").split()
            require(int(size) == 1 << 20, f"{size} bytes came")
            return float(taken)
        self.node("slow", "4mbit")
        slow = seconds("receives-slowly")
        self.node("fast")
        fast = seconds("receives-fast")
        require(1.7 < slow < 6.0, f"1 MiB over 4 Mbit/s took {slow:.2f} s, not about 2.1")
        require(fast < 0.5, f"1 MiB at full speed took {fast:.2f} s")
        self.node("slow", "quick", expect=2)
        return f"{slow:.2f} s against {fast:.3f} s"

    def paused(self):
        self.node("pause")
        require(not self._counts(), "the pod runs on a paused node")
        require("is paused" in self.node("kill", "kubelet", expect=1), "a paused kubelet seems to be killed")
        self.await_ready("Unknown")
        self.node("resume")
        self.await_ready("True")
        self.require_same_container()

    def kubelet_killed(self):
        self.node("kill", "kubelet")
        require("kubelet does not run" in self.node("status"), "status does not say so")
        require(self._counts(), "the pod ended with the kubelet")
        self.await_ready("Unknown")
        self.node("start", "kubelet")
        self.await_ready("True")
        self.require_same_container()

    def runtime_killed(self):
        self.node("kill", "containerd")
        require(self._counts(), "the pod ended with containerd")
        self.node("start", "containerd")
        self.await_ready("True")
        self.require_same_container()
        require(self.pods.output("after", "print('runs')", NODE).strip() == "runs", "no new pod runs")

    def killed(self):
        before = self.client.get(f"/api/v1/nodes/{NODE}")["status"]["nodeInfo"]["bootID"]
        group = footprint.node_group(self.harness.folder(self.rig_name), NODE)
        pids = group.pids()
        require(len(pids) > 8, f"only {len(pids)} processes are in its group: nothing is tested")
        self.node("kill")
        require(not group.pids(), f"processes stay: {group.pids()}")
        require("off" in self.node("status"), "status does not say so")
        self.await_ready("Unknown")
        require("remedy:" in self.node("pause", expect=1), "no remedy")
        self.node("start")
        self.await_ready("True")
        wait_until(lambda: self.client.get(f"/api/v1/nodes/{NODE}")["status"]["nodeInfo"]["bootID"] != before, "a new boot id")
        def again():
            status = self.pods.get("counts")["status"]["containerStatuses"][0]
            return status["restartCount"] > 0 and "running" in status["state"] and status["containerID"] != self.container
        wait_until(again, "the pod runs again after the start of its node", 60.0)
        return f"{len(pids)} processes"

    def run(self):
        for title, body in (
            ("a node that is cut off is lost, its pod runs on; joined, all is as before", self.cut_and_joined),
            ("a slowed link takes its time", self.slowed),
            ("a paused node stops with its pods, and goes on", self.paused),
            ("kill -9 of a kubelet: its pod runs on", self.kubelet_killed),
            ("kill -9 of containerd: its pod runs on", self.runtime_killed),
            ("power off and on: nothing runs, then a new boot id and the pod again", self.killed),
        ):
            self.harness.check(title, body)
        self.client.close()


def left_of(folder):
    """What a rig has on the machine although it should have nothing."""
    name, group = footprint.interface(folder), footprint.control_group(folder)
    left = [str(path) for path in (Path("/sys/class/net") / name, *(entry.path / group for entry in cgroups.hierarchies())) if path.exists()]
    return left + [f"{file}" for file in folder.glob("run/*.pid") if processes.running_pid(file)]
