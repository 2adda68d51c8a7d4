"""What runs that were killed leave behind goes with the next command; what has an owner that lives stays."""

import os
import signal
import subprocess

from checks.harness import Harness, kill_9, require, wait_until
from rig import orphans, processes


class OrphanChecks:
    """Expects no rig to be there."""

    def __init__(self, harness):
        self.harness = harness

    def up_takes_down_an_orphan(self):
        killed = self.harness.start("../on-rig", "--profile", "control", "--", "sleep", "600")
        rig = f"on-rig-{killed.pid}"
        wait_until((self.harness.folder(rig) / "rig.env").exists, f"the rig {rig} is up", timeout_s=120)
        # on-rig and its command; the programs of the rig have sessions of their own.
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        require(self.harness.processes(), "no process survived: nothing is tested")
        require("left by a run that was killed" in self.harness.run("status", "--name", rig), "status does not say so")
        text = self.harness.run("up", "--name", "next", "--owner", str(os.getpid()))
        require(f"taking down the rig '{rig}'" in text, text)
        require(not self.harness.folder(rig).exists(), f"it stays: {self.harness.folder(rig)}")

    def a_living_owner_keeps_its_rig(self):
        self.harness.run("down", "--orphans")
        self.harness.run("status", "--name", "next")

    def a_reused_pid_is_no_owner(self):
        file = orphans.owner_file(self.harness.folder("next"))
        pid, started, boot = file.read_text(encoding="ascii").split()
        file.write_text(f"{pid} {int(started) - 1} {boot}\n", encoding="ascii")
        self.harness.run("down", "--orphans")
        self.harness.require_nothing_left("next")

    def a_folder_goes_with_its_rigs(self):
        folder = self.harness.root / f"asterism-run-{os.getuid()}-killed run"
        folder.mkdir()
        inner = Harness(folder)
        up = inner.start("up", "--name", "cut")
        wait_until((inner.folder("cut") / "run" / "etcd.pid").exists, "etcd was started")
        kill_9(up)
        owner = subprocess.Popen(["sleep", "60"])
        processes.write_pid(orphans.owner_file(folder), owner.pid)
        self.harness.run("down", "--all")
        require(folder.exists(), "it is gone although its owner lives")
        kill_9(owner)
        self.harness.run("down", "--all")
        require(not folder.exists(), f"it stays: {folder}")
        require(not inner.processes(), f"processes stay: {inner.processes()}")

    def an_owner_must_exist(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        text = self.harness.run("up", "--name", "cut", "--owner", str(gone.pid), expect=2)
        require(f"there is no process {gone.pid}" in text, text)
        self.harness.require_nothing_left("cut")

    def run(self):
        for title, body in (
            ("kill -9 of on-rig: the next up takes its rig down", self.up_takes_down_an_orphan),
            ("a rig whose owner lives stays", self.a_living_owner_keeps_its_rig),
            ("a pid that was given to somebody else is no owner", self.a_reused_pid_is_no_owner),
            ("kill -9 of selftest: down --all finds its folder and the rigs in it", self.a_folder_goes_with_its_rigs),
            ("up for a process that is gone is refused", self.an_owner_must_exist),
        ):
            self.harness.check(title, body)
