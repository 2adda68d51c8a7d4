"""Rigs with real nodes as a whole: several at once, nothing left behind, and what is said where they cannot run."""

import os
import subprocess
from pathlib import Path

from checks.harness import kill_9, require, wait_until
from checks.real_faults import left_of
from rig import places

_ONE = ("--profile", "real", "--real-nodes", "1")


class RealLifecycleChecks:
    """Expects a rig named `main_rig` with real nodes to be up; takes it down."""

    def __init__(self, harness, main_rig):
        self.harness = harness
        self.main_rig = main_rig

    def _require_nothing_left(self, name):
        self.harness.require_nothing_left(name)
        left = left_of(self.harness.folder(name))
        require(not left, f"it leaves {left}")

    def beside_another(self):
        """Also real nodes beside simulated ones."""
        self.harness.run("up", "--name", "full", "--profile", "full", "--real-nodes", "1", "--nodes", "8", "--own-scheduler")
        first, second = (self.harness.environment(name) for name in (self.main_rig, "full"))
        require(first["ASTERISM_RIG_REAL_NETWORK"] != second["ASTERISM_RIG_REAL_NETWORK"], "both have the same addresses")
        client = self.harness.client("full")
        labels = [item["metadata"]["labels"] for item in client.get("/api/v1/nodes")["items"]]
        client.close()
        require(sum(label.get("rig.asterism.dev/layer") == "real" for label in labels) == 1 and len(labels) == 9, f"{labels}")
        text = self.harness.run("status", "--name", "full")
        require("simulated by kwok" in text and "1 nodes with kubelet" in text, text)
        for name in (self.main_rig, "full"):
            self.harness.run("status", "--name", name)

    def down_leaves_the_other(self):
        self.harness.run("down", "--name", "full")
        require(not left_of(self.harness.folder("full")), f"it leaves {left_of(self.harness.folder('full'))}")
        self.harness.run("status", "--name", self.main_rig)

    def down_with_a_paused_node(self):
        self.harness.run("node", self.main_rig, "real-0", "pause")
        self.harness.run("down", "--name", self.main_rig)
        self._require_nothing_left(self.main_rig)

    def _cut_up(self, name, file):
        process = self.harness.start("up", "--name", name, *_ONE)
        wait_until((self.harness.folder(name) / "run" / file).exists, f"{file} is there")
        kill_9(process)

    def killed_up(self):
        for file in ("switch.pid", "real-0.pid", "real-0.kubelet.pid"):
            self._cut_up("cut", file)
            self.harness.run("down", "--name", "cut")
            self._require_nothing_left("cut")

    def up_after_a_killed_up(self):
        self._cut_up("cut", "real-0.containerd.pid")
        require("cleaning up" in self.harness.run("up", "--name", "cut", *_ONE), "it did not notice")
        self.harness.run("status", "--name", "cut")

    def orphans(self):
        owner = subprocess.Popen(["sleep", "60"])
        self.harness.run("down", "--name", "cut")
        self.harness.run("up", "--name", "cut", *_ONE, "--owner", str(owner.pid))
        kill_9(owner)
        require("the process that it was for is gone" in self.harness.run("down", "--orphans"), "it does not say so")
        self._require_nothing_left("cut")

    def _check(self, *wrapper):
        done = subprocess.run([*wrapper, places.SOURCE / "up", "--profile", "real", "--check"], stdin=subprocess.DEVNULL, capture_output=True,
                              env={**os.environ, "ASTERISM_RIG_ROOT": "/tmp"}, text=True, timeout=30, check=False)
        require(done.returncode == 1 and "remedy:" in done.stderr, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
        return done.stderr

    def says_what_is_missing(self):
        alone = ("unshare", "--mount", "--propagation", "private", "sh", "-c")
        empty = self.harness.root / "empty"
        empty.mkdir()
        for wrapper, complaint in (
            (("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"), "namespaces cannot be made"),
            ((*alone, f"mount --bind '{empty}' /usr/lib/cni && exec \"$@\"", "sh"), "containernetworking-plugins"),
            ((*alone, "mount --bind /dev/null /usr/sbin/runc && exec \"$@\"", "sh"), "missing: runc"),
            ((*alone, "umount --lazy --recursive /sys/fs/cgroup && exec \"$@\"", "sh"), "control groups are missing"),
            ((*alone, "mount -t tmpfs none /dev && mknod /dev/null c 1 3 && exec \"$@\"", "sh"), "/dev/shm"),
        ):
            text = self._check(*wrapper)
            require(complaint in text, f"{complaint!r} does not stand in {text}")

    def needs_root(self):
        if not os.access(Path(places.SOURCE, "up"), os.X_OK) or not places.SOURCE.stat().st_mode & 0o005:
            return "not tried: the tree is not readable for others"
        done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-B", places.SOURCE / "up", "--profile", "real", "--check"],
                              env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
        require(done.returncode == 1 and "real nodes need root" in done.stderr and "--profile scale" in done.stderr, done.stdout + done.stderr)
        return None

    def run(self):
        for title, body in (
            ("real beside simulated nodes, in a second rig at the same time", self.beside_another),
            ("down of one leaves the other alone", self.down_leaves_the_other),
            ("down of a rig with a paused node leaves nothing", self.down_with_a_paused_node),
            ("kill -9 of up at three points, then down leaves nothing", self.killed_up),
            ("kill -9 of up, then up works", self.up_after_a_killed_up),
            ("down --orphans takes the nodes of a killed run down", self.orphans),
            ("what the machine lacks is named, with the remedy", self.says_what_is_missing),
            ("without root it says so", self.needs_root),
        ):
            self.harness.check(title, body)
