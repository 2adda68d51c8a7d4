"""Order of the gang queue, who may use a Queue, and what it may use."""

import time

from harness import jobs
from harness.failure import require, require_equal
from harness.scenario import scenario


def create_queue(cluster, name, **spec):
    cluster.api.create(jobs.queue(name, **spec))
    cluster.defer(lambda: cluster.api.delete("Queue", name))


def create_priority_class(cluster, name, value):
    cluster.api.create({"kind": "PriorityClass", "metadata": {"name": name}, "value": value})
    cluster.defer(lambda: cluster.api.delete("PriorityClass", name))


@scenario()
def a_higher_priority_goes_first_and_then_the_older_job(cluster):
    create_priority_class(cluster, "urgent", 1000)
    filler = cluster.fill(free_nodes=0)
    order = []
    older = cluster.submit_job("older", 512).wait_waiting("NoCapacity")
    time.sleep(1.1)     # creation times have whole seconds
    younger = cluster.submit_job("younger", 512).wait_waiting("NoCapacity")
    urgent = cluster.submit_job("urgent", 512, priorityClassName="urgent").wait_waiting("NoCapacity")
    urgent.wait(lambda: [job.waiting.get("queuePosition") for job in (urgent, older, younger)] == [1, 2, 3],
                f"queue positions, {[job.waiting for job in (urgent, older, younger)]}")
    filler.delete()
    for job in (urgent, older, younger):
        job.wait_state("Running")
        order.append(job.name)
        job.delete()
    require_equal(order, ["urgent", "older", "younger"], "order of starts")


@scenario()
def a_gang_that_does_not_fit_stops_no_smaller_one_behind_it(cluster):
    cluster.fill(free_nodes=4)
    cluster.submit_job("large", 64).wait_waiting("NoCapacity")
    cluster.run_job("small", 32).require_whole(4)


@scenario()
def an_unknown_queue_is_named_until_it_exists(cluster):
    job = cluster.submit_job("lost", 8, queue="nowhere").wait_waiting("NotAllowed")
    require_equal(job.waiting["message"],
                  'spec.queue: there is no Queue "nowhere": create it, or name one of `kubectl get aq`', "waiting.message")
    require_equal(job.condition("Admitted")["status"], "False", "condition Admitted")
    create_queue(cluster, "nowhere", namespaceSelector={})
    job.wait_state("Running")


@scenario()
def a_queue_of_another_namespace_is_refused(cluster):
    create_queue(cluster, "theirs", namespaces=["somewhere-else"])
    job = cluster.submit_job("guest", 8, queue="theirs").wait_waiting("NotAllowed")
    require("theirs" in job.waiting["message"] and cluster.namespace in job.waiting["message"], f"message {job.waiting['message']!r}")
    cluster.api.patch("Queue", "theirs", {"spec": {"namespaces": ["somewhere-else", cluster.namespace]}})
    job.wait_state("Running")


@scenario()
def limits_of_a_queue_hold(cluster):
    create_queue(cluster, "limited", namespaceSelector={}, maxGpusPerJob=64, quotas=[{"product": "*", "guaranteed": 0, "limit": 96}])
    large = cluster.submit_job("large", 72, queue="limited").wait_waiting("NotAllowed")
    require("at most 64" in large.waiting["message"], f"message {large.waiting['message']!r}")
    first = cluster.run_job("first", 64, queue="limited")
    second = cluster.submit_job("second", 64, queue="limited").wait_waiting("QuotaExceeded")
    require("96" in second.waiting["message"], f"message {second.waiting['message']!r}")
    cluster.run_job("third", 32, queue="limited")
    first.delete()
    second.wait_state("Running").require_whole(8)


@scenario()
def a_stopped_queue_holds_its_jobs(cluster):
    create_queue(cluster, "stopped", namespaceSelector={}, stopPolicy="Hold")
    job = cluster.submit_job("held", 8, queue="stopped").wait_waiting("QueueStopped")
    cluster.api.patch("Queue", "stopped", {"spec": {"stopPolicy": "None"}})
    job.wait_state("Running")


@scenario()
def an_unknown_level_is_named_with_those_that_exist(cluster):
    job = cluster.submit_job("racks", 32, placement={"levels": [{"level": "rack"}]}).wait_waiting("InvalidSpec")
    require_equal(job.waiting["message"], 'spec.placement.levels[0].level: "rack" is not a level of this cluster (node, supernode, cluster)',
                  "waiting.message")
    require_equal(job.condition("Admitted")["message"], job.waiting["message"], "message of the condition Admitted")


@scenario()
def a_template_that_the_api_server_refuses_is_told_with_its_words(cluster):
    template = {"spec": {"containers": [], "dnsPolicy": "Nonsense"}}
    job = cluster.submit_job("broken", 8, template=template).wait_waiting("InvalidTemplate")
    require("dnsPolicy" in job.waiting["message"], f"message {job.waiting['message']!r}")
    require(not job.pods(), "it has pods")


@scenario()
def an_unknown_priority_class_is_named(cluster):
    job = cluster.submit_job("nobody", 8, priorityClassName="nobody").wait_waiting("InvalidSpec")
    require('"nobody"' in job.waiting["message"], f"message {job.waiting['message']!r}")
