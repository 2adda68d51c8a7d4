"""Rigs as a whole: two at once, identities, faults of components, and that nothing is ever left behind."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

from checks.harness import kill_9, require, wait_until
from rig import places, processes, programs
from rig.api_client import ApiClient

# exit(2) of the first thread alone.
_ENDS_BUT_FOR_A_THREAD = """
import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60}.get(platform.machine(), 93), 0)
"""
_CHART_CONFIGURATION = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: kube-scheduler
data:
  config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {leaderElect: true, resourceName: x, resourceNamespace: y}
    profiles: [{schedulerName: asterism}]
    extenders:
    - urlPrefix: https://asterism-extender.asterism-system.svc:8443/extender
      filterVerb: filter
      enableHTTPS: true
      tlsConfig: {caFile: /somewhere/ca.crt, certFile: /somewhere/tls.crt, keyFile: /somewhere/tls.key}
      httpTimeout: 200ms
      nodeCacheCapable: true
      managedResources: [{name: nvidia.com/gpu}]
"""


class LifecycleChecks:
    """Expects a rig named `main_rig` with 64 simulated nodes to be up."""

    def __init__(self, harness, main_rig):
        self.harness = harness
        self.main_rig = main_rig

    def status(self):
        text = self.harness.run("status", "--name", self.main_rig)
        require("64 nodes with 8 GPUs each are simulated by kwok; pods run no program" in text, text)

    def nodes(self):
        client = self.harness.client(self.main_rig)
        items = client.get("/api/v1/nodes")["items"]
        client.close()
        require(len(items) == 64, f"{len(items)} nodes")
        supernodes = {}
        for item in items:
            require(item["status"]["allocatable"]["nvidia.com/gpu"] == "8", f"{item['status']['allocatable']}")
            require(not item["spec"].get("taints"), f"{item['metadata']['name']} is tainted: {item['spec'].get('taints')}")
            supernodes.setdefault(item["metadata"]["labels"]["asterism.dev/declared-supernode"], []).append(item)
        require(sorted(supernodes) == [f"sn-{index:04}" for index in range(16)], f"{sorted(supernodes)}")
        require(all(len(members) == 4 for members in supernodes.values()), "a supernode does not have 4 nodes")

    def refuses_second_up(self):
        text = self.harness.run("up", "--name", self.main_rig, expect=3)
        require("already running" in text and "remedy:" in text, text)

    def two_at_once(self):
        chart = self.harness.root / "chart.yaml"
        chart.write_text(_CHART_CONFIGURATION, encoding="utf-8")
        self.harness.run("up", "--name", "two", "--audit", "--scheduler-config", str(chart))
        first, second = self.harness.environment(self.main_rig), self.harness.environment("two")
        require(first["ASTERISM_EXTENDER_PORT"] != second["ASTERISM_EXTENDER_PORT"], "both have the same ports")
        for name in (self.main_rig, "two"):
            self.harness.run("status", "--name", name)
        require(Path(second["ASTERISM_RIG_AUDIT_LOG"]).stat().st_size > 0, "the audit log is empty")
        used = (self.harness.folder("two") / "config" / "asterism-scheduler.json").read_text(encoding="utf-8")
        require(second["ASTERISM_EXTENDER_URL"].startswith("https://127.0.0.1:"), second["ASTERISM_EXTENDER_URL"])
        require('"200ms"' in used and "/somewhere/" not in used, used)
        for part in (second["ASTERISM_EXTENDER_URL"], second["ASTERISM_EXTENDER_CA"], second["ASTERISM_EXTENDER_CLIENT_CERT"],
                     '"serverName": "asterism-extender.asterism-system.svc"'):
            require(part in used, f"{part} does not stand in {used}")

    def down_leaves_the_other(self):
        self.harness.run("down", "--name", "two")
        require(not self.harness.folder("two").exists(), "its directory stays")
        self.harness.run("status", "--name", self.main_rig)

    def identities(self):
        user = "system:serviceaccount:asterism-system:asterism-controller"
        path = self.harness.run("kubeconfig", "--name", self.main_rig, "--user", user).strip()
        text = self._whoami(path)
        require(user in text and "system:serviceaccounts:asterism-system" in text, text)
        path = self.harness.run("kubeconfig", "--name", self.main_rig, "--service-account", "default/default").strip()
        require("system:serviceaccount:default:default" in self._whoami(path), "the token is somebody else's")

    def _whoami(self, kubeconfig):
        kubectl = self.harness.environment(self.main_rig)["ASTERISM_RIG_KUBECTL"]
        return subprocess.run([kubectl, "--kubeconfig", kubeconfig, "auth", "whoami"], capture_output=True, text=True, timeout=30).stdout

    def api_server_faults(self):
        client = self.harness.client(self.main_rig)
        client.post("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "kept"}, "data": {"a": "b"}})
        name = ("--name", self.main_rig)
        self.harness.run("apiserver", "stop", *name)
        require(not self._answers(), "it answers although it is stopped")
        self.harness.run("status", *name, expect=1)
        self.harness.run("apiserver", "start", *name)
        require(client.get("/api/v1/namespaces/default/configmaps/kept")["data"] == {"a": "b"}, "the data is gone")
        self.harness.run("apiserver", "pause", *name)
        require(not self._answers(), "it answers although it is paused")
        self.harness.run("apiserver", "resume", *name)
        require(self._answers(), "it does not answer after resume")
        self.harness.run("component", "etcd", "kill", *name)
        self.harness.run("component", "etcd", "start", *name)
        self.harness.run("apiserver", "restart", *name)
        require(client.get("/api/v1/namespaces/default/configmaps/kept")["data"] == {"a": "b"}, "the data is gone")
        client.close()
        wait_until(lambda: "NOT READY" not in self.harness.run("status", *name, expect=0), "all is healthy again")

    def _answers(self):
        variables = self.harness.environment(self.main_rig)
        client = ApiClient(variables["ASTERISM_RIG_API_URL"], variables["ASTERISM_RIG_CA"], timeout_s=1.0)
        try:
            return client.get("/readyz") == "ok"
        except OSError:
            return False
        finally:
            client.close()

    def up_cleans_after_death(self):
        pid = int((self.harness.folder(self.main_rig) / "run" / "etcd.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        text = self.harness.run("up", "--name", self.main_rig)
        require("cleaning up an earlier rig" in text and "etcd died" in text, text)
        self.harness.run("status", "--name", self.main_rig)
        self.harness.run("down", "--name", self.main_rig)
        self.harness.require_nothing_left(self.main_rig)

    def _start_and_wait_for(self, component):
        process = self.harness.start("up", "--name", "cut")
        wait_until((self.harness.folder("cut") / "run" / f"{component}.pid").exists, f"{component} was started")
        return process

    def up_after_kill_9(self):
        kill_9(self._start_and_wait_for("kube-apiserver"))
        require(self.harness.processes(), "no process survived: nothing is tested")
        require("cleaning up" in self.harness.run("up", "--name", "cut"), "it did not notice")
        self.harness.run("status", "--name", "cut")
        self.harness.run("down", "--name", "cut")
        self.harness.require_nothing_left("cut")

    def down_after_kill_9(self):
        kill_9(self._start_and_wait_for("etcd"))
        self.harness.run("down", "--name", "cut")
        self.harness.require_nothing_left("cut")

    def interrupted_up_cleans(self):
        process = self._start_and_wait_for("kube-apiserver")
        process.send_signal(signal.SIGINT)
        require(process.wait(timeout=20) == 130, f"exit code {process.returncode}")
        self.harness.require_nothing_left("cut")

    def down_ends_a_running_up(self):
        process = self._start_and_wait_for("kube-apiserver")
        self.harness.run("down", "--name", "cut")
        process.wait(timeout=20)
        self.harness.require_nothing_left("cut")

    def taken_port(self):
        with socket.socket() as holder:
            holder.bind(("127.0.0.1", 0))
            holder.listen()
            port = holder.getsockname()[1]
            text = self.harness.run("up", "--name", "cut", "--port-base", str(port), expect=1)
        require(re.search(rf"ports are taken: .*{port}", text) and "remedy:" in text, text)
        self.harness.require_nothing_left("cut")

    def too_little_memory(self):
        text = self.harness.run("up", "--name", "cut", "--min-memory-gib", "1000000", expect=1)
        require("not enough memory" in text and "remedy:" in text, text)
        self.harness.require_nothing_left("cut")

    def loopback_down(self):
        """In a network namespace of its own, which has no interface that is up. Needs the right to make one."""
        alone = ["unshare", "--net", "--map-root-user"]
        if subprocess.run([*alone, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            return "not tried: no network namespace can be made here"
        done = subprocess.run([*alone, places.SOURCE / "up", "--name", "cut"], env={**os.environ, "ASTERISM_RIG_ROOT": str(self.harness.root)},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10, check=False)
        require(done.returncode == 1 and "loopback interface is down\nremedy: ip link set lo up" in done.stderr, done.stderr)
        self.harness.require_nothing_left("cut")
        return None

    def dying_process_is_not_gone(self):
        """Its first thread has ended and another one holds what it had open, as after a SIGKILL on a busy machine."""
        child = subprocess.Popen([sys.executable, "-c", _ENDS_BUT_FOR_A_THREAD])  # pylint: disable=consider-using-with
        pid_file = self.harness.root / "dying.pid"
        try:
            processes.write_pid(pid_file, child.pid)
            state = Path(f"/proc/{child.pid}/stat")
            wait_until(lambda: state.read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "Z", "its first thread ends")
            require(processes.running_pid(pid_file) == child.pid, "a process whose threads still run counts as gone")
        finally:
            child.kill()
            child.wait()
        require(processes.running_pid(pid_file) is None, "a process that is gone counts as running")
        pid_file.unlink()

    def broken_component(self):
        text = self.harness.run("up", "--name", "cut", "--component-arg", "kube-scheduler=--no-such-flag", expect=1)
        require("kube-scheduler ended" in text and "no-such-flag" in text, text)
        self.harness.require_nothing_left("cut")

    def cut_off_program(self):
        folder = self.harness.root / "cut programs"
        folder.mkdir()
        shutil.copy(programs.locate("kube-scheduler"), folder)
        os.truncate(folder / "kube-scheduler", 20_000_000)
        text = self.harness.run("up", "--name", "cut", expect=1, KUBEBUILDER_ASSETS=str(folder))
        require("kube-scheduler is damaged" in text and f"remedy: rm '{folder}/kube-scheduler'" in text, text)
        self.harness.require_nothing_left("cut")

    def down_of_nothing(self):
        require("no rig" in self.harness.run("down", "--name", "cut"), "it does not say so")
        self.harness.run("down", "--all")

    def run(self):
        for title, body in (
            ("status says what runs and what is simulated", self.status),
            ("64 nodes in 16 supernodes, no taint", self.nodes),
            ("up of a rig that runs is refused with exit code 3", self.refuses_second_up),
            ("two rigs at once, the second with audit log and a chart's scheduler configuration", self.two_at_once),
            ("down of one leaves the other alone", self.down_leaves_the_other),
            ("kubeconfigs for users and tokens", self.identities),
            ("API server and etcd: stop, start, pause, kill; the data stays", self.api_server_faults),
            ("a process that is not gone altogether counts as running", self.dying_process_is_not_gone),
            ("up cleans after a component was killed; down leaves nothing", self.up_cleans_after_death),
            ("kill -9 of up in the middle, then up works", self.up_after_kill_9),
            ("kill -9 of up in the middle, then down leaves nothing", self.down_after_kill_9),
            ("Ctrl-C of up leaves nothing", self.interrupted_up_cleans),
            ("down ends an up that is at work", self.down_ends_a_running_up),
            ("a taken port is named", self.taken_port),
            ("too little memory is said before anything starts", self.too_little_memory),
            ("a loopback interface that is down is named at once", self.loopback_down),
            ("a component that does not start is explained by its log", self.broken_component),
            ("a program that is cut off is named, with the remedy", self.cut_off_program),
            ("down of nothing is no error", self.down_of_nothing),
        ):
            self.harness.check(title, body)
