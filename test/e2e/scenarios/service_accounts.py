"""A namespace that has no ServiceAccount yet."""

import json

from harness import jobs
from harness.failure import require
from harness.scenario import scenario

_NAMESPACE = "just-made"


@scenario()
def a_job_applied_together_with_its_namespace_runs(cluster):
    # The API server refuses pods until kube-controller-manager has made the ServiceAccount `default`; here that takes long.
    items = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}, jobs.training_job("train", 32, _NAMESPACE)]
    with cluster.rig.paused("kube-controller-manager"):
        cluster.rig.kubectl("apply", "--filename", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        job = cluster.adopt("train", _NAMESPACE)
        job.wait(job.status, "it is looked at")
        job.hold_state(2.0, lambda: job.state not in ("Running", "Failed"), "it can neither run nor fail without a ServiceAccount")
        require(not cluster.api.get("ServiceAccount", "default", _NAMESPACE), "the ServiceAccount is there: nothing was refused")
    job.wait_state("Running").require_whole(4)
