"""Installs the chart on a rig, as a user would, for a controller that runs as a local process."""

import json
import subprocess
import tempfile

from harness import places
from harness.failure import Failed

from rig import programs

NAMESPACE = "asterism-system"
SERVICE_ACCOUNT = f"{NAMESPACE}/asterism-controller"
# Fast enough to be waited for in a test.
LEASE = {"leaseDurationSeconds": 3, "renewDeadlineSeconds": 2, "retryPeriodSeconds": 0.5}
DEFAULT_LEASE = {}    # the chart's own values
# Simulated nodes cannot run an agent either; all that the controller has to do with agents is there.
_NO_PODS = {"controller": {"replicas": 0}, "scheduler": {"replicas": 0}, "agents": {"nodeSelector": {"rig.asterism.dev/layer": "real"}}}


def release(rig, config=None, name="asterism", *arguments):
    """Only the release, on a cluster whose definitions may be there."""
    values = {**_NO_PODS, "config": config or {}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        rig.helm("install", name, places.CHART, "--namespace", NAMESPACE, "--create-namespace", "--values", file.name, *arguments)
    bring_authority(rig)


def install(rig, config=None):
    """Returns the text of the controller's configuration. `config`: values that differ."""
    release(rig, config)
    # The garbage collector looks for new kinds every 30 s only; until then it does not see that a job is gone.
    rig.component("kube-controller-manager", "kill")
    rig.component("kube-controller-manager", "start")
    return configuration(rig)


def configuration(rig):
    """As it stands in the ConfigMap."""
    return rig.kubectl("--namespace", NAMESPACE, "get", "configmap", "asterism-config", "--output", r"jsonpath={.data.config\.yaml}")


def bring_authority(rig):
    """asterism-scheduler runs already and trusts the rig's authority, so the controller has to sign with that one."""
    # As docs/operations.md says.
    files = (f"--from-file=tls.crt={rig['ASTERISM_EXTENDER_CA']}", f"--from-file=tls.key={rig['ASTERISM_EXTENDER_CA_KEY']}")
    made = rig.kubectl("-n", NAMESPACE, "create", "secret", "generic", "asterism-authority", *files, "--dry-run=client", "-o", "yaml")
    rig.kubectl("apply", "-f", "-", text=made)


def write_scheduler_config(path):
    """The kube-scheduler configuration as the chart renders it, for `up --scheduler-config`. Needs no cluster."""
    helm = programs.locate("helm")
    if helm is None:
        raise Failed("helm is not built: test/rig/build helm")
    done = subprocess.run([helm, "template", "asterism", places.CHART, "--namespace", NAMESPACE,
                           "--show-only", "templates/scheduler-config.yaml"], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"helm template: {done.stderr.strip()}")
    path.write_text(done.stdout, encoding="utf-8")
    return path
