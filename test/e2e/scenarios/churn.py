"""Jobs and single pods come and go while the controller is killed again and again; nothing may ever be wrong. Where the operator
binds by itself, kube-scheduler binds the single pods and every second job all the same, so that both meet on the same nodes."""

import os
import random
import threading
import time

from harness import jobs, pods as pod_facts
from harness.api import ApiError
from harness.failure import Failed, require
from harness.scenario import Commit, scenario
from scenarios.queueing import create_queue

_JOBS_AT_ONCE = 12
_SINGLES_AT_ONCE = 12
_PINNED = "pinned"     # a Queue whose jobs kube-scheduler binds
_KILL_AFTER_S = (0.2, 2.5)


class Churn(threading.Thread):
    """Creates, breaks, suspends and deletes jobs of random size until it is told to stop."""

    def __init__(self, cluster, seed, queues):
        super().__init__(daemon=True)
        self._cluster = cluster
        self._random = random.Random(seed)
        self._queues = queues
        self._stop_event = threading.Event()
        self.jobs = []
        self.created = 0
        self._singles = []
        self._singles_created = 0
        self.error = None

    def stop(self):
        self._stop_event.set()
        self.join(timeout=60)
        if self.error:
            raise Failed(f"the churn broke: {self.error!r}")

    def run(self):
        try:
            while not self._stop_event.wait(self._random.uniform(0.01, 0.12)):
                self._step_unless_away()
        except Exception as error:  # pylint: disable=broad-except
            self.error = error

    def _step_unless_away(self):
        """The API server may be away, or not quite back, just now."""
        try:
            self._step()
        except ApiError as error:
            if error.status not in (429, 500, 503, 504):
                raise
        except OSError:
            pass

    def _step(self):
        if self._random.random() < 0.3:
            self._step_of_singles()
            return
        self.jobs = [job for job in self.jobs if job.object() or time.monotonic() - job.born < 5]
        if len(self.jobs) < _JOBS_AT_ONCE and self._random.random() < 0.6:
            self._add()
        elif self.jobs:
            job = self._random.choice(self.jobs)
            action = self._random.choice([self._remove, self._remove, self._break, self._suspend])
            if job.object():
                action(job)

    def _add(self):
        self.created += 1
        pods = self._random.choice([1, 1, 2, 4, 4, 8, 16, 33])
        behaviour = self._random.choice([None, None, {"run-seconds": self._random.randint(1, 4)}])
        job = self._cluster.submit_job(f"churn-{self.created:04}", pods * 8, behaviour=behaviour, queue=self._random.choice(self._queues))
        job.born = time.monotonic()
        self.jobs.append(job)

    def _step_of_singles(self):
        if len(self._singles) < _SINGLES_AT_ONCE:
            self._singles_created += 1
            name = f"single-{self._singles_created:04}"
            self._singles.append(name)
            self._cluster.create_pod(name, gpus=self._random.randint(1, 4), scheduler=jobs.SCHEDULER)
        else:
            self.remove_single(self._random.choice(self._singles))

    def remove_single(self, name):
        self._cluster.api.delete("Pod", name, self._cluster.namespace, gracePeriodSeconds=0)
        self._singles.remove(name)

    def remove_singles(self):
        while self._singles:
            self.remove_single(self._singles[0])

    def _remove(self, job):
        job.delete()

    def _break(self, job):
        pods = job.bound_pods()
        if pods:
            pod = self._random.choice(pods)
            annotations = {"rig.asterism.dev/exit-code": "1"}
            self._cluster.patch_if_there("Pod", pod_facts.name(pod), {"metadata": {"annotations": annotations}})

    def _suspend(self, job):
        value = not job.object()["spec"].get("suspend", False)
        self._cluster.patch_if_there("TrainingJob", job.name, {"spec": {"suspend": value}})


def seed():
    given = os.environ.get("ASTERISM_E2E_SEED")
    return int(given) if given else random.SystemRandom().randrange(1_000_000)


def kills(default):
    return int(os.environ.get("ASTERISM_E2E_KILLS") or default)


def settle(cluster):
    """Every job runs, waits, is suspended or has ended."""
    def restless():
        states = ("Running", "Succeeded", "Failed", "Suspended")
        return [job["metadata"]["name"] for job in cluster.jobs.all()
                if job.get("status", {}).get("state") not in states and not job.get("status", {}).get("waiting")]
    cluster.wait_for(lambda: not restless(), lambda: f"every job runs, waits, is suspended or has ended; not so {restless()[:5]}", 90)


@scenario(commit=Commit.DIRECT)
def kills_of_the_controller_during_a_churn_break_nothing(cluster):
    run_churn(cluster, kills_of_the_controller_during_a_churn_break_nothing, kills(10), hurt=lambda rng, number: cluster.controller.kill())


def run_churn(cluster, body, count, hurt, check_every=5):
    """`body`: the scenario that calls this."""
    chosen = seed()
    command = next(each.command for each in body.scenarios if each.direct == cluster.direct)
    print(f"   repeat: {command} --seed {chosen} --kills {count}", flush=True)
    rng = random.Random(chosen)
    queues = ["default"]
    if cluster.direct:
        create_queue(cluster, _PINNED, namespaceSelector={}, commit="Scheduler")
        queues.append(_PINNED)
    churn = Churn(cluster, chosen, queues)
    churn.start()
    try:
        for number in range(1, count + 1):
            time.sleep(rng.uniform(*_KILL_AFTER_S))
            hurt(rng, number)
            cluster.ensure_controller()
            cluster.require_no_violations()
            require(churn.is_alive(), f"the churn broke: {churn.error!r}")
            if number % check_every == 0:
                print(f"   {number} of {count}, {churn.created} jobs so far", flush=True)
    finally:
        churn.stop()
    settle(cluster)
    cluster.check(timeout_s=30)
    require(churn.created > count, f"only {churn.created} jobs: no churn")
    churn.remove_singles()
    for job in churn.jobs:
        job.delete()
    cluster.wait_for(lambda: not cluster.jobs.all(), "all jobs are gone, so that no Queue is taken from under one")
