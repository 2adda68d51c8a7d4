"""Helm upgrades, rolls back, removes and installs again under jobs that run: their pods know nothing of it."""

import json
import shutil
import time

from harness import chart, places, pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import scenario

from hook_jobs import HookJobs  # on the path through harness.places

_DEFINITIONS = ("trainingjobs", "queues", "sparepools", "clustertopologies")


def newer_chart(folder):
    """The chart, a version ahead: jobs have one more field."""
    made = shutil.copytree(places.CHART, folder, dirs_exist_ok=True)
    _change(made / "Chart.yaml", "\nversion: ", "\nversion: 9")
    for path in (made / "crds").glob("*.yaml"):
        _change(path, "asterism.dev/version: ", "asterism.dev/version: 9")
    field = "              expectedDurationSeconds:\n"
    _change(made / "crds/trainingjobs.yaml", field, f"              ofTheFuture: {{type: integer}}\n{field}")
    return made


def _change(path, old, new):
    text = path.read_text(encoding="utf-8")
    require_equal(text.count(old), 1, f"{old!r} in {path.name}")
    path.write_text(text.replace(old, new), encoding="utf-8")


class Release:
    def __init__(self, cluster):
        self._cluster = cluster

    def helm(self, verb, name="asterism", *words):
        """Returns how many Jobs of hooks there were."""
        with HookJobs(self._cluster.rig.environment(), chart.NAMESPACE) as played:
            self._cluster.rig.helm(verb, name, *words, "--namespace", chart.NAMESPACE)
        return len(played.commands)

    def pod_templates(self):
        listed = self._cluster.rig.kubectl("get", "deployments", "--namespace", chart.NAMESPACE, "--output=json")
        return {each["metadata"]["name"]: each["spec"]["template"] for each in json.loads(listed)["items"]}

    def start_controller_again(self):
        """With a token of the ServiceAccount that is there now."""
        self._cluster.rig.kubeconfig(chart.SERVICE_ACCOUNT)
        self._cluster.ensure_controller()

    def restore(self):
        """As the run has begun, whatever there is."""
        self._cluster.controller.terminate()
        for name in ("asterism", "gangs"):
            self.helm("uninstall", name, "--ignore-not-found")
        self._cluster.rig.kubectl("apply", "--server-side", "--force-conflicts", "--field-manager=asterism-chart", "--filename", places.CHART / "crds")
        chart.release(self._cluster.rig, self._cluster.config_values, "asterism", "--skip-crds")
        self.start_controller_again()


@scenario()
def no_upgrade_rollback_or_uninstall_touches_a_running_job(cluster):
    release = Release(cluster)
    cluster.defer(release.restore)
    job = cluster.run_job("train", 128)
    pods, templates = {pod_facts.uid(pod) for pod in job.pods()}, release.pod_templates()

    def require_untouched(after, future=None):
        cluster.api.patch("TrainingJob", "train", {"metadata": {"annotations": {"written": str(time.time())}}}, cluster.namespace)
        job.hold_state(1.0, lambda: job.state == "Running", f"not Running after {after}")
        require_equal({pod_facts.uid(pod) for pod in job.pods()}, pods, f"pods after {after}")
        require_equal((job.epoch, job.restarts["count"]), (1, 0), f"epoch, restarts.count after {after}")
        require_equal(job.object()["spec"].get("ofTheFuture"), future, f"the field of the newer definition after {after}")

    newer = newer_chart(cluster.scratch / "newer")
    jobs = release.helm("upgrade", "asterism", newer, "--reuse-values", "--set", "flowControl.shares=61")
    require_equal((jobs, release.pod_templates()), (1, templates), "Jobs for the definitions; pod templates after an upgrade")
    require_untouched("the upgrade")
    job.patch({"ofTheFuture": 7})
    cluster.run_job("during", 32).delete()
    require_equal((release.helm("rollback", "asterism", "1"), release.pod_templates()), (0, templates), "Jobs, pod templates after the rollback")
    require_untouched("the rollback", future=7)

    cluster.controller.terminate()       # as its Deployment ends it
    release.helm("uninstall")
    for name in _DEFINITIONS:
        cluster.rig.kubectl("get", name, "--all-namespaces")
    require(cluster.api.get("Queue", "default"), "the default queue is gone")
    require_untouched("the uninstall", future=7)

    chart.release(cluster.rig, cluster.config_values, "gangs", "--skip-crds")
    release.start_controller_again()
    require_untouched("the new release", future=7)
    cluster.run_job("after", 128).require_whole(16)
