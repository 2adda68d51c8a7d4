"""The Service of a job: the ranks find rank 0 by its name, so it must be the job's own."""

import json
import time

from harness import jobs, pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import scenario


def require_own_service(cluster, job):
    """It belongs to this job, selects its pods, and resolves to them."""
    def seen():
        service = cluster.services.get(job.name, job.namespace) or {"metadata": {}, "spec": {}}
        owners = [owner["uid"] for owner in service["metadata"].get("ownerReferences", [])]
        return owners, service["spec"].get("selector"), resolved_pods(cluster, job)
    expected = [job.uid], {"asterism.dev/job-uid": job.uid, "asterism.dev/live": "true"}, {pod_facts.uid(pod) for pod in job.live_pods()}
    cluster.wait_for(lambda: seen() == expected, lambda: f"owner, selector and pods of Service {job.name}: expected {expected}, seen {seen()}")


def resolved_pods(cluster, job):
    """UIDs of the pods in the EndpointSlices of the job's name: what its host names lead to."""
    slices = cluster.api.list("EndpointSlice", job.namespace, labelSelector=f"kubernetes.io/service-name={job.name}")
    return {endpoint["targetRef"]["uid"] for each in slices for endpoint in each.get("endpoints") or []}


@scenario()
def the_service_is_headless_and_selects_the_live_pods_of_the_job(cluster):
    job = cluster.run_job("train", 16)
    spec = cluster.api.get("Service", "train", cluster.namespace)["spec"]
    require_equal((spec["clusterIP"], spec.get("publishNotReadyAddresses")), ("None", True), "clusterIP, publishNotReadyAddresses")
    require_own_service(cluster, job)


@scenario()
def a_job_that_replaces_another_gets_a_service_of_its_own(cluster):
    # The garbage collector stands still, so that the new gang meets the Service of the old one for certain.
    body = jobs.training_job("train", 64)
    cluster.submit(body).wait_state("Running")
    with cluster.rig.paused("kube-controller-manager"):
        cluster.rig.kubectl("replace", "--force", "--filename", "-", text=json.dumps(body))
        job = cluster.adopt("train", cluster.namespace)
        job.wait(lambda: job.blocks() or job.waiting, "placed, or waiting")
        time.sleep(1)
    job.wait_state("Running").require_whole(8)
    require_own_service(cluster, job)
    job.hold_state(3.0, lambda: cluster.services.get("train", cluster.namespace), "the Service went with the job that is gone")
    require_own_service(cluster, job)


@scenario()
def a_foreign_service_of_its_name_is_named_and_keeps_the_job_from_running(cluster):
    foreign = cluster.api.create(jobs.service("train"))
    cluster.defer(lambda: cluster.api.delete("Service", "train", cluster.namespace))
    job = cluster.submit_job("train", 64).wait_waiting("BindFailed")
    message = job.waiting["message"]
    require("Service" in message and "train" in message and "delete" in message,
            f"the message does not name the Service and what to do about it: {message!r}")
    time.sleep(3)       # it tries again meanwhile
    require(not job.status().get("startTime"), f"it ran, and its ranks could not find rank 0: {job.describe()}")
    left = cluster.api.get("Service", "train", cluster.namespace)
    require_equal((left["metadata"]["uid"], left["spec"]), (foreign["metadata"]["uid"], foreign["spec"]), "the foreign Service")
    cluster.api.delete("Service", "train", cluster.namespace)
    job.wait_state("Running", timeout_s=90).require_whole(8)
    require_own_service(cluster, job)
