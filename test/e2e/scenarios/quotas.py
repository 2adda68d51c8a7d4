"""A ResourceQuota that has room for a part of a gang."""

from harness.failure import require, require_equal
from harness.scenario import Commit, scenario


@scenario(commit=Commit.BOTH)
def a_resource_quota_for_2_of_4_pods_leaves_no_half_gang(cluster):
    cluster.create_namespace("tight")
    cluster.api.create({"kind": "ResourceQuota", "metadata": {"name": "two-pods", "namespace": "tight"}, "spec": {"hard": {"pods": "2"}}})
    cluster.defer(lambda: cluster.api.delete("ResourceQuota", "two-pods", "tight"))
    cluster.wait_for(lambda: (cluster.api.get("ResourceQuota", "two-pods", "tight").get("status") or {}).get("hard"), "the quota counts")
    job = cluster.submit_job("four", 32, namespace="tight")
    job.wait(lambda: job.waiting.get("reason") == "QuotaExceeded" and not job.pods(), "QuotaExceeded and no pods")
    require("two-pods" in job.waiting["message"], f"the message does not name the quota: {job.waiting['message']!r}")
    require_equal(job.state, "Admitted", "state")
    cluster.check()
    cluster.api.patch("ResourceQuota", "two-pods", {"spec": {"hard": {"pods": "4"}}}, "tight")
    job.wait_state("Running", timeout_s=90).require_whole(4)
