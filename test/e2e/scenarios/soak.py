"""Long churn with every part of the control plane being hurt; runs with --soak."""

import time

from harness.scenario import Commit, scenario
from scenarios.churn import kills, run_churn


def hurt_anything(cluster):
    """The controller is killed each time; something else is hurt with it now and then."""
    rig = cluster.rig

    def api_server(_rng):
        rig.component("kube-apiserver", "kill")
        rig.component("kube-apiserver", "start")

    def scheduler(rng):
        rig.component("asterism-scheduler", "kill")
        time.sleep(rng.uniform(0, 3))
        rig.component("asterism-scheduler", "start")

    def storage(rng):
        rig.component("etcd", "pause")
        time.sleep(rng.uniform(0.2, 4))
        rig.component("etcd", "resume")

    def long_pause_of_the_controller(rng):
        cluster.controller.pause()
        time.sleep(rng.uniform(1, 6))
        cluster.controller.resume()

    def hurt(rng, _number):
        other = rng.choice([None, None, None, api_server, scheduler, storage, long_pause_of_the_controller])
        if other:
            other(rng)
            cluster.ensure_controller()
            time.sleep(rng.uniform(0, 1.5))
        cluster.controller.kill()
    return hurt


@scenario(soak=True, commit=Commit.BOTH)
def many_kills_of_everything_during_a_churn_break_nothing(cluster):
    run_churn(cluster, many_kills_of_everything_during_a_churn_break_nothing, kills(50), hurt_anything(cluster))
