"""Installs the chart on a rig, as a user would, for a controller that runs as a local process."""

import base64
import json
import subprocess
import tempfile
from pathlib import Path

from harness import places
from harness.failure import Failed

from rig import programs

NAMESPACE = "asterism-system"
SERVICE_ACCOUNT = f"{NAMESPACE}/asterism-controller"
# Fast enough to be waited for in a test.
LEASE = {"leaseDurationSeconds": 3, "renewDeadlineSeconds": 2, "retryPeriodSeconds": 0.5}
DEFAULT_LEASE = {}    # the chart's own values
_NO_PODS = {"controller": {"replicas": 0}, "scheduler": {"replicas": 0}}


def install(rig, config=None):
    """Returns the text of the controller's configuration, as it stands in the ConfigMap. `config`: values that differ."""
    values = {**_NO_PODS, "config": config or {}}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(values, file)
        file.flush()
        rig.helm("install", "asterism", places.CHART, "--namespace", NAMESPACE, "--create-namespace", "--values", file.name)
    bring_authority(rig)
    # The garbage collector looks for new kinds every 30 s only; until then it does not see that a job is gone.
    rig.component("kube-controller-manager", "kill")
    rig.component("kube-controller-manager", "start")
    return rig.kubectl("--namespace", NAMESPACE, "get", "configmap", "asterism-config", "--output", r"jsonpath={.data.config\.yaml}")


def bring_authority(rig):
    """asterism-scheduler runs already and trusts the rig's authority, so the controller has to sign with that one."""
    files = {"tls.crt": rig["ASTERISM_EXTENDER_CA"], "tls.key": rig["ASTERISM_EXTENDER_CA_KEY"]}
    data = {key: base64.b64encode(Path(file).read_bytes()).decode() for key, file in files.items()}
    rig.kubectl("--namespace", NAMESPACE, "patch", "secret", "asterism-authority", "--type=merge", "--patch", json.dumps({"data": data}))


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
