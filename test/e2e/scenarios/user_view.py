"""What a person sees: columns, events, metrics, the scale subresource."""

from harness.failure import require, require_equal
from harness.scenario import scenario


@scenario()
def kubectl_shows_the_columns(cluster):
    cluster.run_job("train", 64)
    rows = [line.split() for line in cluster.rig.kubectl("-n", cluster.namespace, "get", "tj").splitlines()]
    require_equal(rows[0], ["NAME", "QUEUE", "CLASS", "GPUS", "PLACED", "STATE", "AGE"], "columns")
    require_equal(rows[1][:6], ["train", "default", "Finetuning", "64", "8/8", "Running"], "row")
    cluster.fill(free_nodes=56, name="rest")
    cluster.submit_job("waits", 512).wait_waiting("NoCapacity")
    wide = cluster.rig.kubectl("-n", cluster.namespace, "get", "tj", "waits", "-o", "wide").splitlines()
    require(wide[0].split()[-1] == "REASON" and wide[1].split()[-1] == "NoCapacity", f"wide: {wide}")


@scenario()
def events_tell_the_life_of_a_job(cluster):
    job = cluster.submit_job("train", 32, behaviour={"run-seconds": 2}).wait_state("Succeeded")

    def reasons():
        events = cluster.api.list("Event", cluster.namespace)
        return {event["reason"] for event in events if event.get("regarding", {}).get("uid") == job.uid}
    expected = {"Admitted", "Placed", "Bound", "Started", "Succeeded"}
    cluster.wait_for(lambda: expected <= reasons(), lambda: f"events {sorted(expected)}; there are {sorted(reasons())}")
    count = sum(event.get("regarding", {}).get("uid") == job.uid for event in cluster.api.list("Event", cluster.namespace))
    require(count <= 6, f"{count} events for one gang, at most 6 are promised")


@scenario()
def metrics_and_health_answer(cluster):
    cluster.run_job("train", 32)
    for path in ("/healthz", "/readyz", "/leaderz"):
        require_equal(cluster.controller.ask(path)[0], 200, path)
    require(cluster.controller.metric("asterism_gang_decisions_total", outcome="placed") >= 1, "asterism_gang_decisions_total{outcome=placed}")
    cluster.wait_for(lambda: cluster.controller.metric("asterism_jobs", state="Running") == 1, "asterism_jobs{state=Running} is 1")
    status, text = cluster.controller.ask("/configz")
    require(status == 200 and "source: Auto" in text, f"/configz: {status} {text[:200]}")


@scenario()
def the_scale_subresource_shows_gpus_and_selects_the_pods(cluster):
    job = cluster.run_job("train", 64)
    scale = cluster.api.get("TrainingJob", "train/scale", cluster.namespace)
    require_equal((scale["spec"]["replicas"], scale["status"]["replicas"]), (64, 64), "scale: spec and status")
    pods = cluster.rig.kubectl("-n", cluster.namespace, "get", "pods", "-l", scale["status"]["selector"], "-o", "name").split()
    require_equal(len(pods), len(job.live_pods()), "pods that status.selector selects")


@scenario()
def conditions_are_all_there_from_the_first_status(cluster):
    cluster.fill(free_nodes=0)
    job = cluster.submit_job("waits", 8).wait_waiting("NoCapacity")
    seen = {each["type"]: each["status"] for each in job.status()["conditions"]}
    missing = {"Admitted", "Planned", "Placed", "Bound", "Running", "Succeeded", "Failed", "Suspended"} - seen.keys()
    require(not missing, f"missing conditions: {missing}")
    require_equal((seen["Admitted"], seen["Placed"]), ("True", "False"), "Admitted, Placed")
    require_equal(job.status()["placed"], "0/1", "status.placed")
