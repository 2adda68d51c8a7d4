"""Ranks that end: success, restarts under a new epoch, first causes, rules and limits."""

import time

from harness import pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario


@scenario()
def a_job_whose_pods_all_finish_succeeds(cluster):
    job = cluster.submit_job("finishes", 32, behaviour={"run-seconds": 1}).wait_state("Succeeded")
    require(job.status().get("completionTime"), "no completionTime")
    require_equal(job.condition("Succeeded")["status"], "True", "condition Succeeded")
    job.wait(lambda: all(pod_facts.phase(pod) == "Succeeded" for pod in job.pods()) and len(job.pods()) == 4, "ended pods stay for their logs")
    cluster.run_job("next", 512).require_whole(64)       # ended pods hold nothing


@scenario()
def rank_zero_alone_decides_where_the_policy_says_so(cluster):
    job = cluster.run_job("leader-only", 32, successPolicy="RankZero")
    job.annotate_pod(0, end="true")
    job.wait_state("Succeeded")
    job.wait(lambda: not job.live_pods(), "the other ranks are ended")


@scenario(commit=Commit.BOTH)
def one_failed_rank_restarts_the_gang_under_a_new_epoch(cluster):
    job = cluster.run_job("fails", 32)
    epoch, victim = job.epoch, job.annotate_pod(2, exit_code="3")
    job.wait_restarted().require_whole(4)
    require_equal({pod_facts.epoch(pod) for pod in job.live_pods()}, {epoch + 1}, "epochs of the new pods")
    last = job.restarts["last"]
    seen = {key: last.get(key) for key in ("reason", "rank", "pod", "node", "exitCode")}
    require_equal(seen, {"reason": "AppError", "rank": 16, "pod": pod_facts.name(victim), "node": pod_facts.node(victim), "exitCode": 3},
                  "status.restarts.last")
    require_equal(job.restarts.get("counted"), 1, "restarts.counted")
    kept = [pod for pod in job.pods() if pod_facts.name(pod) == pod_facts.name(victim)]
    require(kept, "the pod that failed first is not kept for its logs")
    require(pod_facts.LIVE not in kept[0]["metadata"]["labels"], "the kept pod is still live: its host name would mean two pods")


@scenario()
def a_pod_that_ran_out_of_memory_is_told_so(cluster):
    job = cluster.run_job("hungry", 16)
    job.annotate_pod(1, oom="true")
    job.wait_restarted().require_whole(2)
    last = job.restarts["last"]
    require_equal((last["reason"], last.get("exitCode"), last["rank"]), ("OOMKilled", 137, 8), "reason, exit code, rank")


@scenario()
def a_rule_fails_the_job_on_its_exit_code(cluster):
    rules = [{"exitCodes": [42], "action": "FailJob"}]
    job = cluster.run_job("rules", 16, failurePolicy={"backoffSeconds": 0, "maxRestarts": 3, "rules": rules})
    job.annotate_pod(0, exit_code="3")
    job.wait_restarted()
    job.annotate_pod(0, exit_code="42")
    job.wait_state("Failed")
    require("42" in job.condition("Failed")["message"], f"the message does not name the exit code: {job.condition('Failed')}")
    job.wait(lambda: not job.live_pods(), "no pod runs on")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_rule_restarts_without_counting(cluster):
    rules = [{"exitCodes": [9], "action": "RestartAndIgnoreMaxRestarts"}]
    job = cluster.run_job("uncounted", 16, failurePolicy={"backoffSeconds": 0, "maxRestarts": 0, "rules": rules})
    for count in (1, 2):
        job.annotate_pod(1, exit_code="9")
        job.wait_restarted(count)
    require_equal(job.restarts.get("counted", 0), 0, "restarts.counted")
    job.annotate_pod(1, exit_code="1")
    job.wait_state("Failed")


@scenario(commit=Commit.BOTH_IN_SOAK)
def the_job_fails_when_its_restarts_are_used_up(cluster):
    job = cluster.run_job("limited", 16, failurePolicy={"backoffSeconds": 0, "maxRestarts": 1})
    job.annotate_pod(0, exit_code="1")
    job.wait_restarted(1)
    job.annotate_pod(1, exit_code="7")
    job.wait_state("Failed")
    require("7" in job.condition("Failed")["message"], f"message {job.condition('Failed')}")
    require_equal(job.restarts["last"]["exitCode"], 7, "exit code of the last cause")
    cluster.run_job("next", 512)


@scenario(commit=Commit.BOTH_IN_SOAK)
def the_first_cause_is_named_and_not_the_ranks_that_died_of_it(cluster):
    job = cluster.run_job("cascade", 64)
    pods = job.live_pods()
    cause = job.annotate_pod(5, exit_code="11")
    for pod in pods[:3]:
        job.annotate(pod, exit_code="1")    # as far as the restart has left them
    job.wait_restarted()
    require_equal(job.restarts["last"]["pod"], pod_facts.name(cause), "pod of the first cause")
    require_equal(job.restarts["count"], 1, "one failure is one restart")


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_pod_deleted_by_hand_restarts_the_gang(cluster):
    job = cluster.run_job("touched", 32)
    cluster.api.delete("Pod", pod_facts.name(job.live_pods()[1]), cluster.namespace)
    job.wait_restarted().require_whole(4)


@scenario(commit=Commit.BOTH)
def a_pod_that_the_kubelet_refuses_restarts_the_gang(cluster):
    job = cluster.run_job("refused", 32)
    job.annotate_pod(3, refuse="OutOfnvidia.com/gpu")
    job.wait_restarted().require_whole(4)


@scenario()
def a_restart_waits_for_its_back_off_which_doubles(cluster):
    job = cluster.run_job("backs-off", 64, failurePolicy={"backoffSeconds": 2, "maxRestarts": 3})
    for count, back_off_s in ((1, 2), (2, 4)):
        epoch, began = job.epoch, time.monotonic()
        job.annotate_pod(3, exit_code="3")
        job.wait(lambda epoch=epoch: any(pod_facts.epoch(pod) > epoch for pod in job.pods()), "pods of the next epoch")
        waited = time.monotonic() - began
        require(waited >= back_off_s, f"new pods came {waited:.1f} s after failure {count}, the back-off is {back_off_s} s")
        job.wait_restarted(count).require_whole(8)


@scenario(commit=Commit.BOTH_IN_SOAK)
def a_restart_creates_no_pod_before_the_old_ones_are_gone(cluster):
    job = cluster.run_job("slow", 512, behaviour={"stop-seconds": 3})
    old, gone_after, too_early = {pod_facts.uid(pod) for pod in job.pods()}, [], []
    began = time.monotonic()

    def observe(before, after):
        if after is None:
            gone_after.append(time.monotonic() - began)
        if after is None or pod_facts.ended(after):
            old.discard(pod_facts.uid(after or before))
        elif before is None and old:
            too_early.append(f"{pod_facts.name(after)} while {len(old)} old ones were there")
    with cluster.pods.observed_by(observe):
        job.annotate_pod(10, exit_code="3")
        job.wait_restarted().require_whole(64)
    require(min(gone_after) >= 3, f"an old pod was gone after {min(gone_after):.1f} s, and not slow: this shows nothing")
    require_equal(too_early[:3], [], "pods created too early")
