"""Every command of README.md and docs/ is typed, with the outcome that the page says."""

import shlex
import subprocess
import time

from harness import command_line, documented, places
from harness.failure import require, require_equal
from harness.scenario import scenario

# Verbs that the text speaks of.
_NAMES = ("kubectl apply", "kubectl asterism doctor", "kubectl asterism explain", "kubectl asterism plan",
          "helm uninstall", "kubectl apply --dry-run=server")
# Commands that are not typed here, by their beginnings, with the reason.
_ELSEWHERE = {
    "helm ": "test/chart/install_test types them",
    "kubectl delete ": "test/chart/install_test types them",
    "kubectl -n asterism-system logs": "pods of the rig run no program",
    "kubectl asterism TAB": "a key",
    "kubectl -n asterism-system port-forward": "pods of the rig run no program",
    "curl --cacert": "goes through that port-forward",
    "kubectl -n asterism-system create secret generic asterism-authority": "harness/chart.py types it for each rig",
    **dict.fromkeys(("call() {", "kubectl create --dry-run=client -o json -f job.yaml", "{removeJob", "{addNodes", "{cordonNodes", "{gpus: 256}",
                     "echo '{"), "grpcurl is no package of Debian: scenarios/placement_service asks the same with placement_client"),
    **dict.fromkeys(("kubectl -n asterism-system get configmap asterism-planner", "kubectl -n asterism-system patch configmap asterism-planner"),
                    "scenarios/calibrations types them where there is a calibration"),
    "sleep 15": "the way from there to the next line",
    "kubectl create namespace research": "the jobs of the pages live there already",
    "kubectl taint nodes": "harness/commit_mode types it, on nodes that are closed",
    "deploy/images/build": "test/images/images_test does it, with build/ci",
    "skopeo": "by hand: needs a registry",
    "kubectl -n asterism-system describe job": "the Job is there only while an upgrade is at work",
    "make build PRESET=release": "by hand: a build of its own that needs minutes",
    "make demo": "by hand: it stays up, and there is one a machine",
    "make format": "by hand: it changes the tree; the house test of the format asks the same of clang-format",
    "make tidy": "by hand: half an hour of clang-tidy",
    "make test": "this run is a part of it",
    "test/run": "this run is a part of it",
    "test/e2e/run --only": "this run is such a one",
    "test/build ci": "what is tested here was built by it",
    "install build/ci/cli/kubectl-asterism": "writes into /usr/local; here a folder of the run is on PATH instead",
    "test/house/tidy": "one of the unit tests",
    "test/fuzz/run": "the stage fuzz of test/run: needs a build of its own",
    "test/bench/instruction-gate": "the stage instructions of test/run",
    "make bench": "by hand: measures for half an hour",
    "test/build bench": "a part of make bench",
    "test/bench/run": "a part of make bench",
    "make soak": "by hand: hours",
    "test/soak": "by hand: hours",
}
_STAND_FOR = {"NAMESPACE": "research", "NAME": "vit", "JOB": "vit", "VERB": "explain"}
_TIMEOUT_S = 120
_EXPLAINED_S = 20.0


def _jobs_of_the_pages(cluster):
    """What the pages show: two that run, one that waits, one that never fits."""
    cluster.create_namespace("research")
    for name, gpus in (("llama", 256), ("vit", 16)):
        cluster.run_job(name, gpus, namespace="research")
    cluster.submit_job("bert", 480, namespace="research").wait_waiting("NoCapacity")
    cluster.submit_job("huge", 520, namespace="research").wait_waiting("NeverFits")


def _install_plug_in(cluster, folder):
    """The real program, told how to ask the controller: the API server's proxy reaches pods only."""
    wrapper = folder / "kubectl-asterism"
    direct = shlex.join(command_line.CommandLine(cluster).direct)
    wrapper.write_text(f'#!/bin/sh\ncase $1 in topology|version) set -- "$@" {direct};; esac\nexec {command_line.program()} "$@"\n')
    wrapper.chmod(0o755)


def _working_folder(cluster):
    """What a page writes stays out of the source tree."""
    folder = cluster.scratch / "typed"
    folder.mkdir(exist_ok=True)
    for entry in places.SOURCE.iterdir():
        if not entry.name.startswith("."):
            (folder / entry.name).symlink_to(entry)
    return folder


def _environment(cluster):
    """A shell of somebody who works in the namespace research and has installed the plug-in."""
    folder = cluster.scratch / "bin"
    folder.mkdir(exist_ok=True)
    _install_plug_in(cluster, folder)
    kubeconfig = cluster.scratch / "research.kubeconfig"
    kubeconfig.write_bytes(places.Path(cluster.rig["KUBECONFIG"]).read_bytes())
    found = cluster.rig.environment()
    environment = {**found, "PATH": f"{folder}:{found['PATH']}", "KUBECONFIG": str(kubeconfig)}
    subprocess.run(["kubectl", "config", "set-context", "--current", "--namespace=research"], env=environment, check=True,
                   stdout=subprocess.DEVNULL, timeout=30)
    return environment


def _type(command, environment, folder):
    text = command.text
    if not command.program:
        for word, meaning in _STAND_FOR.items():
            text = text.replace(word, meaning)
    deadline = time.monotonic() + _EXPLAINED_S
    while True:
        done = subprocess.run(["bash", "-o", "pipefail", "-c", text, "typed", ""], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        # A job that was just created may not have been looked at.
        if done.returncode == command.code or "asterism explain" not in text or time.monotonic() > deadline:
            break
        time.sleep(0.5)
    require_equal(done.returncode, command.code, f"exit code of `{text}` in {command.page} ({(done.stdout + done.stderr)[-500:]})")


@scenario()
def every_documented_command_does_what_the_page_says(cluster):
    found = [command for command in documented.commands() if command.text not in _NAMES]
    left_out = [command for command in found if command.text.startswith(tuple(_ELSEWHERE))]
    idle = [start for start in _ELSEWHERE if not any(command.text.startswith(start) for command in left_out)]
    require(not idle, f"exceptions for commands that no page has: {idle}")
    _jobs_of_the_pages(cluster)
    environment, folder = _environment(cluster), _working_folder(cluster)
    cluster.defer(lambda: cluster.rig.kubectl("-n", "asterism-system", "scale", "deployment", "asterism-controller", "--replicas=0"))
    cluster.defer(lambda: cluster.rig.kubectl("delete", "--filename", places.EXAMPLES / "queue.yaml", "--ignore-not-found"))
    for command in found:
        if command not in left_out:
            _type(command, environment, folder)
    print(f"   {len(found) - len(left_out)} commands typed, {len(left_out)} are run elsewhere or by hand", flush=True)
