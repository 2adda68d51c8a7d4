"""A TrainingJob that a scenario has created: waits for its states, reads its status and its pods."""

import json
import time

from harness import placement, pods as pod_facts
from harness.api import ApiError
from harness.failure import require

_GONE_S = 60.0


class Job:
    def __init__(self, cluster, created):
        self._cluster = cluster
        self.name = created["metadata"]["name"]
        self.namespace = created["metadata"]["namespace"]
        self.uid = created["metadata"]["uid"]
        self.created = created

    def object(self):
        """As last seen; None when it is gone, or another object has its name."""
        found = self._cluster.jobs.get(self.name, self.namespace)
        return found if found and found["metadata"]["uid"] == self.uid else None

    def status(self):
        return (self.object() or {}).get("status", {})

    @property
    def state(self):
        return self.status().get("state")

    @property
    def waiting(self):
        return self.status().get("waiting", {})

    @property
    def epoch(self):
        return self.status().get("placement", {}).get("epoch", 0)

    @property
    def restarts(self):
        return self.status().get("restarts", {"count": 0})

    def condition(self, kind):
        return next((each for each in self.status().get("conditions", []) if each["type"] == kind), {})

    def blocks(self):
        """[(first rank, node, epoch)] as the status promises it."""
        return placement.blocks(self.status())

    def pods(self):
        """All of them, by first rank and epoch; those of earlier epochs too."""
        return sorted(self._cluster.gang_pods(self.uid), key=lambda pod: (pod_facts.ranks(pod)[0], pod_facts.epoch(pod)))

    def live_pods(self):
        return [pod for pod in self.pods() if not pod_facts.ended(pod) and not pod_facts.deleting(pod)]

    def bound_pods(self):
        return [pod for pod in self.live_pods() if pod_facts.node(pod)]

    def nodes(self):
        """Node of each live pod, in rank order."""
        return [pod_facts.node(pod) for pod in self.live_pods()]

    def describe(self):
        status = self.status()
        brief = {key: status[key] for key in ("state", "placed", "pods", "waiting", "restarts", "timings") if key in status}
        return f"job {self.name}: {json.dumps(brief)}, {len(self.pods())} pods, {len(self.bound_pods())} bound"

    def wait(self, predicate, what, timeout_s=60.0):
        self._cluster.wait_for(predicate, lambda: f"{what}; {self.describe()}", timeout_s)
        return self

    def wait_state(self, state, timeout_s=60.0):
        def reached():
            require(state in ("Failed", "Succeeded") or self.state not in ("Failed", "Succeeded"),
                    f"it ended instead of becoming {state}: {self.describe()}; {self.condition('Failed').get('message')}")
            return self.state == state
        return self.wait(reached, f"state {state}", timeout_s)

    def wait_waiting(self, reason, timeout_s=60.0):
        return self.wait(lambda: self.waiting.get("reason") == reason, f"waiting with reason {reason}", timeout_s)

    def wait_restarted(self, count=1, timeout_s=60.0):
        """Until it runs again after its restart number `count`."""
        return self.wait(lambda: self.restarts["count"] == count and self.state == "Running", f"Running after restart {count}", timeout_s)

    def patch(self, spec):
        self._cluster.api.patch("TrainingJob", self.name, {"spec": spec}, self.namespace)

    def annotate_pod(self, index, **behaviour):
        """Tells a simulated pod what to do: `exit_code="3"`. `index`: among the live pods, in rank order."""
        pod = self.live_pods()[index]
        require(self.annotate(pod, **behaviour), f"pod {pod_facts.name(pod)} is gone")
        return pod

    def annotate(self, pod, **behaviour):
        """The same for a pod that may be gone by now: False then."""
        annotations = {f"rig.asterism.dev/{key.replace('_', '-')}": value for key, value in behaviour.items()}
        try:
            self._cluster.api.patch("Pod", pod_facts.name(pod), {"metadata": {"annotations": annotations}}, self.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            return False
        return True

    def delete(self, **options):
        self._cluster.api.delete("TrainingJob", self.name, self.namespace, **options)
        return self

    def wait_gone(self, timeout_s=_GONE_S):
        """Until job, pods and Service are gone."""
        def gone():
            service = self._cluster.services.get(self.name, self.namespace)
            return self.object() is None and not self.pods() and service is None
        return self.wait(gone, "deletion leaves nothing", timeout_s)

    def hold_state(self, seconds, predicate, what):
        """Requires that `predicate()` stays true for that long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            require(predicate(), f"{what}; {self.describe()}")
            time.sleep(0.1)
        return self

    def require_whole(self, pods):
        require(len(self.bound_pods()) == pods and len(self.live_pods()) == pods, f"{pods} bound pods expected: {self.describe()}")
        return self
