"""The second half of the demo: real nodes on this machine, the chart's own pods on them, and a small job that really trains."""

import json
import shutil
import subprocess
import sys
import time

import progress
import show as views
from home import REAL_RIG
from harness import places
from harness.failure import Failed

sys.path.insert(0, str(places.SOURCE / "test/real"))

import real_cluster as real  # noqa: E402

_PROGRAMS = ("kubectl-asterism", "fake_nvml_all", "asterism-controller", "asterism-agent", "asterism-launch", "asterism-test-device-plugin")
_EXAMPLE = places.SOURCE / "examples/ddp-tiny"
_JOB, _NAMESPACE = "ddp-tiny", "default"
_LIMIT_S = 600.0


def why_not():
    """What keeps this machine from running real nodes; empty: nothing."""
    done = subprocess.run([places.RIG / "up", "--profile", "real", "--check"], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else (done.stdout + done.stderr).strip().replace("\n", "; ")


def show():
    """Starts it and shows the job train. Says why where it cannot."""
    print("\nAnd real ones: kubelet, containerd and runc in namespaces of this machine; all of Asterism as pods of its chart.\n", flush=True)
    if reason := why_not():
        print(f"   Not on this machine: {reason}\n")
        return
    cluster = real.RealCluster(places.SOURCE / "build/ci", owner=False)
    cluster.rig.name = REAL_RIG
    try:
        with progress.stage("programs and packages of real nodes", "3 to 5 minutes the first time, then no time"):
            _run(places.SOURCE / "cmake/install-packages", "--real")
            _run(places.RIG / "build", "--real")
            _run(places.SOURCE / "test/build", "ci", *_PROGRAMS)
        with progress.stage("PyTorch", "2 minutes and 5.4 GB the first time, then no time"):
            _run(places.RIG / "pytorch")
        with progress.stage("four real nodes, images", "usually 20 s"):
            cluster.up()
        with progress.stage("helm install charts/asterism: controllers, kube-scheduler and agents are Ready", "usually 20 s"):
            cluster.install()
            cluster.wait_ready()
        cluster.rig.kubectl("apply", "-f", _EXAMPLE / "pytorch-volume.yaml")
        cluster.rig.kubectl("create", "configmap", _JOB, "-n", _NAMESPACE, f"--from-file={_EXAMPLE}/train.py")
        with progress.stage("examples/ddp-tiny/job.yaml: torchrun, 4 pods of 2 ranks", "usually 5 s"):
            cluster.rig.kubectl("apply", "-f", _EXAMPLE / "job.yaml")
            job = real.RealJob(cluster, _JOB, _NAMESPACE)
            status = job.wait_state("Running")
    except Failed as error:
        print(f"   The real half of the demo does not run: {error}\n")
        return
    finally:
        shutil.rmtree(cluster.scratch, ignore_errors=True)
    _show_topology(cluster)
    _show_training(cluster, job, status)


def _show_topology(cluster):
    print("\nWhat the agents of these nodes have measured (the library of the driver is a fake), as `kubectl asterism topology` shows it:\n")
    for line in views.topology(cluster.rig, "--level", "node"):
        print(f"   {line}")
    print(flush=True)


def _show_training(cluster, job, status):
    where = ", ".join(f"ranks {run['firstRank']}-{run['firstRank'] + run['ranks'] - 1} on {run['nodes']}" for run in status["placement"]["runs"])
    timings = status["timings"]
    print(f"\n   placed: {where}; decided in {timings['decideMicroseconds']} us, bound after {timings['commitMilliseconds']} ms, "
          f"running after {timings['startMilliseconds']} ms more\n", flush=True)
    pod = job.pods()[0]["metadata"]["name"]
    told, deadline = -1, time.monotonic() + _LIMIT_S
    while time.monotonic() < deadline:
        state = job.status().get("state")
        lines = cluster.rig.kubectl("logs", "-n", _NAMESPACE, pod, "-c", "trainer", check=False).splitlines()
        for entry in filter(None, map(_parse, lines)):
            # The last line names the steps of the whole run.
            step = entry.get("step", entry.get("steps", 0))
            if step >= told + 50 or (entry.get("event") == "end" and step > told):
                told = step
                print(f"   step {step:>4}   loss {float(entry['loss']):.4f}", flush=True)
        if state in ("Succeeded", "Failed"):
            print(f"\n   The job has {state.lower()}. The same loss without a cluster: examples/ddp-tiny/by-hand")
            break
        time.sleep(1)
    print(f"   Look further: . {cluster.rig['ASTERISM_RIG_DIR']}/rig.env; $ASTERISM_RIG_KUBECTL get pods -A -o wide; "
          f"test/rig/node {REAL_RIG} real-1 kill\n", flush=True)


def _parse(line):
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "loss" in entry else None


def _run(*command):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed((done.stdout + done.stderr).strip()[-1500:])
