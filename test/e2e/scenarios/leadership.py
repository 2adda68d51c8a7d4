"""Two controllers: one leads, the other one takes over, and nobody who has lost the Lease does harm."""

import contextlib
import time

from harness import audit, chart, jobs, pods as pod_facts
from harness.failure import require, require_equal
from harness.leader_proxy import LeaderProxy
from harness.scenario import Commit, scenario
from scenarios.api_outages import half_bound
from scenarios.command_line import restart_controller

_TAKE_OVER_S = 12.0


@contextlib.contextmanager
def pair(cluster):
    """Two controllers on ports of their own, and the port of the extender follows the leader. Yields (leader, standby).

    The standby comes to the API server with a certificate: the audit log tells the two apart.
    """
    ports = cluster.rig.free_ports()
    cluster.controller.terminate()
    cluster.controllers.clear()
    kubeconfigs = [cluster.kubeconfig, cluster.rig.kubeconfig_with_certificate(chart.SERVICE_ACCOUNT)]
    both = [cluster.new_controller(f"pair-{number}", ports[2 + number], number, kubeconfig) for number, kubeconfig in enumerate(kubeconfigs)]
    both[0].start().wait_leading()
    both[1].start().wait_ready()
    proxy = LeaderProxy(int(cluster.rig["ASTERISM_EXTENDER_PORT"]), both).start()
    try:
        yield both
    finally:
        for each in both:
            with contextlib.suppress(OSError):
                each.resume()
            each.kill()
        proxy.stop()
        cluster.controllers.clear()
        cluster.ensure_controller()


def lease(cluster):
    return cluster.api.get("Lease", "asterism-controller", "asterism-system")["spec"]


def writes(cluster):
    """Of standbys, and of what they did as leaders later."""
    return audit.writes_with_certificate(cluster.rig, chart.SERVICE_ACCOUNT)


@scenario(commit=Commit.BOTH_IN_SOAK)
def the_standby_takes_over_when_the_leader_is_killed(cluster):
    with pair(cluster) as (leader, standby):
        running = cluster.run_job("running", 64)
        pods = {pod["metadata"]["uid"] for pod in running.pods()}
        require(not standby.leads(), "two leaders")
        leader.kill()
        seconds = standby.wait_leading(_TAKE_OVER_S)
        print(f"   taken over {seconds:.1f} s after the kill (Lease of 3 s)", flush=True)
        cluster.run_job("after", 64).require_whole(8)
        require_equal({pod["metadata"]["uid"] for pod in running.live_pods()}, pods, "pods of the running job")
        require_equal(lease(cluster)["holderIdentity"], standby.identity, "holder of the Lease")
        cluster.check()


@scenario()
def the_standby_finishes_the_gang_in_whose_middle_the_leader_dies(cluster):
    with pair(cluster) as (leader, standby):
        with half_bound(cluster) as job:
            bound = {pod_facts.uid(pod) for pod in job.bound_pods()}
            leader.kill()
            standby.wait_leading(_TAKE_OVER_S)
            require_equal(standby.metric("asterism_leader_election_master_status"), 1, "asterism_leader_election_master_status")
        job.wait_state("Running").require_whole(64)
        require(bound <= {pod_facts.uid(pod) for pod in job.live_pods()}, f"pods that were bound already were replaced: {job.describe()}")
        require_equal((job.restarts["count"], job.epoch), (0, 1), "restarts.count, epoch")
        cluster.check()


@scenario()
def the_standby_takes_over_in_about_2_seconds_when_the_leader_ends_cleanly(cluster):
    with pair(cluster) as (leader, standby):
        transitions = lease(cluster).get("leaseTransitions", 0)
        began = time.monotonic()
        seconds, code = leader.terminate()
        require(seconds <= 2.5 and code == 0, f"the leader took {seconds:.1f} s to end, exit code {code}")
        standby.wait_leading(_TAKE_OVER_S)
        print(f"   taken over {time.monotonic() - began:.1f} s after SIGTERM", flush=True)
        require(time.monotonic() - began < 5, "it waited for the Lease to run out although it was released")
        require(lease(cluster).get("leaseTransitions", 0) > transitions, "leaseTransitions did not rise")
        cluster.run_job("after", 32).require_whole(4)


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_paused_leader_that_comes_back_does_no_harm(cluster):
    with pair(cluster) as (leader, standby):
        kept = cluster.run_job("kept", 64)
        gone = cluster.run_job("gone", 64)
        leader.pause()
        standby.wait_leading(_TAKE_OVER_S)
        gone.delete().wait_gone()
        fresh = cluster.run_job("fresh", 128)
        pods = {pod["metadata"]["uid"] for pod in kept.live_pods() + fresh.live_pods()}
        leader.resume()
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            require(standby.leads(), "the new leader lost the lead to the one that came back")
            time.sleep(0.1)
        require(not (leader.running() and leader.leads()), "two leaders")
        require_equal({pod["metadata"]["uid"] for pod in kept.live_pods() + fresh.live_pods()}, pods, "pods of the running jobs")
        cluster.run_job("after", 64).require_whole(8)
        cluster.check()


@scenario()
def a_standby_answers_no_extender_call_and_writes_nothing(cluster):
    with pair(cluster) as (leader, standby):
        require(standby.ready() and not standby.leads(), "a standby is ready and does not lead")
        arguments = '{"Pod": {"metadata": {"name": "x", "namespace": "e2e", "uid": "1"}, "spec": {"containers": []}}, "NodeNames": ["gpu-0000"]}'
        for verb in ("filter", "prioritize", "preempt"):
            require_equal(standby.ask(f"/extender/{verb}", port="https", body=arguments)[0], 503, f"a standby's answer to {verb}")
        before = len(writes(cluster))
        cluster.run_job("train", 32).delete().wait_gone()
        require_equal(writes(cluster)[before:], [], "writes of the standby")
        leader.kill()
        standby.wait_leading(_TAKE_OVER_S)
        cluster.wait_for(lambda: standby.ask("/extender/filter", port="https", body=arguments)[0] == 200, "the new leader answers filter", 10)
        cluster.run_job("after", 32)
        require(any("pods/" in write for write in writes(cluster)[before:]), "the audit log does not show what it writes as a leader")


@scenario()
def the_leader_publishes_its_address_and_puts_it_right(cluster):
    def addresses():
        found = cluster.api.get("EndpointSlice", "asterism-extender-leader", chart.NAMESPACE)
        return found and found["endpoints"][0]["addresses"]
    # An address where nobody is: who calls the extender on the rig does not read it.
    restart_controller(cluster, POD_IP="10.9.8.7", POD_NAME="controller-0")
    cluster.defer(lambda: restart_controller(cluster))
    cluster.wait_for(lambda: addresses() == ["10.9.8.7"], lambda: f"the leader's address is published: {addresses()}")
    cluster.api.patch("EndpointSlice", "asterism-extender-leader", {"endpoints": [{"addresses": ["10.1.1.1"]}]}, chart.NAMESPACE)
    cluster.wait_for(lambda: addresses() == ["10.9.8.7"], lambda: f"the leader puts its address right: {addresses()}")


@scenario()
def without_a_leader_no_gpu_pod_is_bound(cluster):
    cluster.controller.kill()
    cluster.create_pod("single", gpus=1, scheduler=jobs.SCHEDULER)
    time.sleep(2)

    def bound():
        return [pod for pod in cluster.pods.all() if pod["spec"].get("nodeName")]
    require(not bound(), "a pod was bound without a ledger")
    cluster.ensure_controller()
    cluster.wait_for(bound, "the pod is bound when a leader is back")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_new_leader_finishes_what_a_killed_one_began(cluster):
    for number in range(3):
        job = cluster.submit_job(f"gang-{number}", 512)
        job.wait([job.blocks, job.pods, lambda: len(job.bound_pods()) > 5][number], "it has begun")
        cluster.controller.kill()
        cluster.ensure_controller()
        job.wait_state("Running").require_whole(64)
        require_equal(job.restarts["count"], 0, "a change of the leader restarts nothing; restarts.count")
        job.delete().wait_gone()
