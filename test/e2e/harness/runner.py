"""Runs scenarios: one rig for each size of cluster, one after the other, and says what held."""

import contextlib
import os
import re
import shutil
import time
import traceback

from harness import audit, chart, commit_mode
from harness.cluster import Cluster
from harness.failure import Failed
from harness.scenario import SMALL, Scenario

PREFIX = "e2e"
# Log folders of earlier runs that are kept.
_KEPT_RUNS = 5
_LATEST = "latest"
# Some clusters answer no list as a stream, and the controller needs its right to list there.
_OF_AN_OLDER_API_SERVER = ("--component-arg", "kube-apiserver=--feature-gates=WatchList=false")

_BACK = Scenario("direct_commit_is_switched_off_again", commit_mode.switch_back, SMALL, soak=False, direct=False)


class Runner:
    def __init__(self, program, log_folder, patient_rig=False):
        self._program = program
        self._log_folder = log_folder
        self._quiet_rig = not patient_rig
        self._may = set()
        self._asked = {}
        self.passed = 0
        self.failed = 0

    def run(self, scenarios, keep=False, whole=False):
        """`whole`: these are all scenarios, so that every right must have been used."""
        for nodes in dict.fromkeys(each.nodes for each in scenarios):
            self._run_on_one_rig(nodes, [each for each in scenarios if each.nodes == nodes], keep)
        if whole:
            self._check_rights()
        return self.failed == 0

    def _check_rights(self):
        complaints = audit.complaints(self._may, self._asked)
        if complaints:
            self.failed += 1
            print("FAIL the_controller_has_the_rights_that_it_uses " + "; ".join(complaints), flush=True)
        else:
            self.passed += 1
            print(f"ok the_controller_has_the_rights_that_it_uses ({len(self._may)} of them)", flush=True)

    def _note_rights(self, cluster):
        try:
            self._may |= audit.granted(cluster.rig, chart.SERVICE_ACCOUNT)
            for right, allowed in audit.used(cluster.rig, chart.SERVICE_ACCOUNT).items():
                self._asked[right] = self._asked.get(right, False) or allowed
        except (Failed, OSError) as error:
            print(f"   the audit log cannot be read: {error}", flush=True)

    def _run_on_one_rig(self, nodes, scenarios, keep):
        began = time.monotonic()
        folder = self._log_folder / f"{nodes}-nodes"
        # Large gangs keep a small machine busy; only scenarios about leaders want a Lease of 3 s, and they are on the small cluster.
        lease = chart.LEASE if nodes == SMALL else chart.DEFAULT_LEASE
        cluster = Cluster(PREFIX, nodes, self._program, folder, config={"leaderElection": lease})
        cluster.rig.add_options(*audit.rig_options(cluster.scratch, chart.SERVICE_ACCOUNT))
        if nodes != SMALL:
            cluster.rig.add_options(*_OF_AN_OLDER_API_SERVER)
        try:
            try:
                cluster.up()
                cluster.ensure_controller()
            except (Failed, OSError) as error:
                self.failed += len(scenarios)
                print(f"FAIL cluster of {nodes} nodes does not come up, {len(scenarios)} scenarios cannot run: {error}\n"
                      f"   logs: {folder}", flush=True)
                return
            print(f"   cluster of {nodes} simulated nodes, chart and controller: {time.monotonic() - began:.1f} s", flush=True)
            for each in scenarios:
                if not each.direct:
                    self._run_one(cluster, each, folder)
            direct = [each for each in scenarios if each.direct]
            if direct and self._switch_to_direct_commit(cluster, direct, folder):
                for each in direct:
                    self._run_one(cluster, each, folder)
            self._note_rights(cluster)
            if keep:
                _wait_for_interrupt(cluster)
            elif cluster.direct:
                self._run_one(cluster, _BACK, folder)
        finally:
            cluster.down()

    def _switch_to_direct_commit(self, cluster, scenarios, folder):
        try:
            commit_mode.switch_to_direct(cluster)
            return True
        except (Failed, OSError) as error:
            self.failed += len(scenarios)
            print(f"FAIL direct commit cannot be switched on, {len(scenarios)} scenarios cannot run: {error}\n   logs: {folder}", flush=True)
            return False

    def _run_one(self, cluster, each, folder):
        began = time.monotonic()
        log_start = cluster.controller.log_size()
        try:
            each.body(cluster)
            cluster.check()
            cluster.reset()
            self.passed += 1
            print(f"ok {each.name} ({time.monotonic() - began:.1f})", flush=True)
        except Exception as error:  # pylint: disable=broad-except  (a scenario may fail in any way; the next one still runs)
            self.failed += 1
            report = _write_report(cluster, each, folder, log_start)
            expected = isinstance(error, Failed)
            print(f"FAIL {each.name} {error if expected else repr(error)} ({time.monotonic() - began:.1f})\n   {report}", flush=True)
            _clean_after_failure(cluster)


def _clean_after_failure(cluster):
    for attempt in (cluster.reset, cluster.force_clean):
        try:
            return attempt()
        except Exception as error:  # pylint: disable=broad-except
            print(f"   cleaning up: {error}", flush=True)
    return None


def _write_report(cluster, each, folder, log_start):
    """Writes down what helps to understand a failure. Returns the path."""
    path = folder / f"{each.name}.txt"
    with open(path, "w", encoding="utf-8") as report:
        report.write(traceback.format_exc())
        for arguments in (["get", "trainingjobs", "-A", "-o", "yaml"], ["get", "pods", "-A", "-o", "wide"], ["get", "events", "-A"]):
            with contextlib.suppress(Failed, OSError):
                report.write(f"\n---- kubectl {' '.join(arguments)}\n{cluster.rig.kubectl(*arguments, check=False)[:200_000]}")
        for each_controller in cluster.controllers:
            for page, port in (("/configz", "metrics"), ("/metrics", "metrics"), ("/ledgerz", "https")):
                with contextlib.suppress(OSError):
                    report.write(f"\n---- {page} of {each_controller.identity}\n{each_controller.ask(page, port)[1][:200_000]}")
            with contextlib.suppress(OSError):
                offset = log_start if each_controller is cluster.controllers[0] else 0
                report.write(f"\n---- log of {each_controller.identity}\n{each_controller.log_text(offset)[-200_000:]}")
    return path


def _wait_for_interrupt(cluster):
    print(f"kept, until Ctrl-C. The rig: . {cluster.rig['ASTERISM_RIG_DIR']}/rig.env\n"
          f"controller: https://localhost:{cluster.controller.ports['metrics']}/metrics (--cacert $ASTERISM_EXTENDER_CA), pid {cluster.controller.pid}, log {cluster.controller.log}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(3600)


def log_folder(base):
    """A folder of this run alone: `base`/DATE-TIME-PID; `base`/latest points to it. Of runs that have ended the last few stay."""
    base.mkdir(parents=True, exist_ok=True)
    ended = [entry for entry in sorted(base.iterdir()) if (pid := _pid_of_run(entry)) and not os.path.exists(f"/proc/{pid}")]
    for entry in ended[:-_KEPT_RUNS]:
        shutil.rmtree(entry, ignore_errors=True)
    folder = base / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir()
    link = base / f".{_LATEST}-{os.getpid()}"
    link.symlink_to(folder.name)
    link.replace(base / _LATEST)
    return folder


def _pid_of_run(folder):
    match = re.fullmatch(r"\d{8}-\d{6}-(\d+)", folder.name)
    return match and match[1]
