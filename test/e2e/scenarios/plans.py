"""Jobs with a model: the planner's answer in the status and in the pods."""

import json

from harness import jobs
from harness.failure import require, require_equal
from harness.scenario import Commit, scenario

_COMMAND = ["torchrun", "pretrain_gpt.py", "--mock-data"]
# A config.json as Hugging Face publishes them.
_CONFIG = {"model_type": "llama", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
           "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False}


def _model(preset="llama-3-8b", **source):
    return (source or {"preset": preset}) | {"globalBatchSize": 128, "sequenceLength": 8192}


def _submit(cluster, name, gpus=64, words=(), **spec):
    container = {"image": jobs.IMAGE, "command": [*_COMMAND, *words]}
    fields = {"framework": "MegatronLM", "model": _model(), "container": container} | spec
    return cluster.submit_job(name, gpus, **fields)


def _trainer(pod):
    return next(each for each in pod["spec"]["containers"] if each["name"] == "trainer")


def _words(pod):
    """What the container starts with, without our own launcher in front."""
    command = _trainer(pod)["command"]
    return (command[command.index("--") + 1:] if "--" in command else command) + _trainer(pod).get("args", [])


def _variables(pod):
    return {each["name"]: each.get("value") for each in _trainer(pod)["env"]}


def _require_plan(job, words):
    """All pods of the job start with these words and the arguments of its plan."""
    plan = job.status()["plan"]
    for pod in job.live_pods():
        require_equal(_words(pod), [*_COMMAND, *words, *plan["arguments"]], "the words of " + pod["metadata"]["name"])
    return plan


@scenario()
def a_job_with_a_model_starts_with_the_arguments_of_its_plan(cluster):
    job = _submit(cluster, "megatron").wait_state("Running")
    job.require_whole(8)
    plan = _require_plan(job, [])
    degrees = plan["degrees"]
    require_equal(degrees["tensor"] * degrees["pipeline"] * degrees["context"] * degrees["data"], 64, "the product of the degrees")
    require("--tensor-model-parallel-size" in plan["arguments"], f"arguments of Megatron-LM: {plan['arguments']}")
    require(plan["stepTimeMilliseconds"]["low"] < plan["stepTimeMilliseconds"]["high"], f"an interval: {plan}")
    require_equal(plan["gpuProduct"], job.status()["effective"]["gpuProduct"], "product")
    require_equal(job.condition("Planned")["reason"], "Applied", "the condition")


@scenario()
def advice_of_the_planner_stands_in_the_status_only(cluster):
    job = _submit(cluster, "advised", plan={"mode": "Advise"}).wait_state("Running")
    require(job.status()["plan"]["arguments"], "the advice")
    for pod in job.live_pods():
        require_equal(_words(pod), _COMMAND, "the words of " + pod["metadata"]["name"])


@scenario()
def the_plan_keeps_flags_of_the_command_and_does_not_say_them_again(cluster):
    own = ["--tensor-model-parallel-size", "4", "--micro-batch-size=1"]
    job = _submit(cluster, "fixed", words=own).wait_state("Running")
    plan = _require_plan(job, own)
    require_equal((plan["degrees"]["tensor"], plan["microBatchSize"]), (4, 1), "what the command says")
    require("--tensor-model-parallel-size" not in plan["arguments"], f"said twice: {plan['arguments']}")


@scenario()
def what_cannot_be_planned_waits_and_says_what_is_in_the_way(cluster):
    job = _submit(cluster, "contradiction", words=["--tensor-model-parallel-size", "4"], plan={"tensor": 8})
    job.wait_waiting("PlanFailed")
    require("spec.plan.tensor: is 8, but the command says" in job.waiting["message"], f"the message: {job.waiting}")
    small = _submit(cluster, "small", gpus=8, model=_model("llama-3-70b"))
    small.wait_waiting("PlanFailed")
    require("GPUs or more" in small.waiting["message"], f"the smallest count: {small.waiting}")
    require_equal(small.condition("Planned")["reason"], "DoesNotFit", "the condition")
    require(not job.pods() and not small.pods(), "nobody started")


@scenario()
def deepspeed_finds_the_file_of_its_plan_in_the_pod(cluster):
    job = _submit(cluster, "zero", framework="DeepSpeed").wait_state("Running")
    _require_plan(job, [])
    for pod in job.live_pods():
        path = _variables(pod)["ASTERISM_PLAN_FILE"]
        require(path in _words(pod), f"the file is named: {_words(pod)}")
        file = json.loads(pod["metadata"]["annotations"]["asterism.dev/plan-file"])
        batch = file["train_micro_batch_size_per_gpu"] * file["gradient_accumulation_steps"] * job.status()["plan"]["degrees"]["data"]
        require_equal(batch, 128, "the batch of the file")


@scenario()
def a_model_in_a_config_map_is_planned(cluster):
    job = _submit(cluster, "mapped", model=_model(huggingFaceConfigMap={"name": "llama-config"}))
    job.wait_waiting("PlanFailed")
    require_equal(job.condition("Planned")["reason"], "ModelUnreadable", "the condition")
    cluster.api.create({"kind": "ConfigMap", "metadata": {"name": "llama-config", "namespace": cluster.namespace},
                        "data": {"config.json": json.dumps(_CONFIG)}})
    cluster.defer(lambda: cluster.api.delete("ConfigMap", "llama-config", cluster.namespace))
    _require_plan(job.wait_state("Running"), [])


@scenario()
def a_plan_follows_the_config_map_until_pods_run(cluster):
    def write(layers):
        body = {"kind": "ConfigMap", "metadata": {"name": "changing", "namespace": cluster.namespace},
                "data": {"config.json": json.dumps(_CONFIG | {"num_hidden_layers": layers})}}
        cluster.rig.kubectl("apply", "--server-side", "--filename", "-", text=json.dumps({"apiVersion": "v1"} | body))

    write(32)
    cluster.defer(lambda: cluster.api.delete("ConfigMap", "changing", cluster.namespace))
    hog = cluster.fill(free_nodes=0, name="hog")
    job = _submit(cluster, "follows", model=_model(huggingFaceConfigMap={"name": "changing"}))
    job.wait_waiting("NoCapacity")
    before = job.status()["plan"]
    write(16)
    job.wait(lambda: job.status()["plan"]["modelDigest"] != before["modelDigest"], "the new file is planned")
    require(job.status()["plan"]["memoryBytes"]["device"] < before["memoryBytes"]["device"], "half of the layers take less")
    hog.delete()
    _require_plan(job.wait_state("Running"), [])


@scenario()
def a_killed_controller_comes_back_to_the_plan_it_had(cluster):
    for number in range(3):
        job = _submit(cluster, f"killed-{number}", gpus=256)
        job.wait(lambda: job.status().get("plan") and len(job.live_pods()) >= 4 * number, "there is a plan, and some of its pods")
        before = job.status()["plan"]
        cluster.controller.kill()
        cluster.controller.start()
        cluster.controller.wait_leading()
        job.wait_state("Running").require_whole(32)
        require_equal(_require_plan(job, []), before, "the plan")
        job.delete()
        cluster.wait_for(lambda: not job.live_pods(), "its pods are gone")


@scenario(commit=Commit.DIRECT)
def a_plan_is_handed_over_by_direct_commit_too(cluster):
    with cluster.rig.paused("asterism-scheduler"):
        job = _submit(cluster, "direct").wait_state("Running")
        job.require_whole(8)
        _require_plan(job, [])
    require(not job.condition("CommitFallback"), f"it fell back: {job.condition('CommitFallback')}")
