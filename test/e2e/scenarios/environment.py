"""What a pod of the gang gets: names, labels, environment, the way to the other ranks."""

from harness import pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import scenario


@scenario()
def pods_get_what_torchrun_needs(cluster):
    job = cluster.run_job("train", 64)
    for index, pod in enumerate(job.live_pods()):
        seen = pod_facts.environment(pod, "trainer")
        master = f"train-r0.train.{cluster.namespace}.svc"
        expected = {
            "MASTER_ADDR": master, "MASTER_PORT": "29500", "WORLD_SIZE": "64", "NODE_RANK": str(index), "NNODES": "8",
            "ASTERISM_JOB": "train", "ASTERISM_EPOCH": str(job.epoch), "ASTERISM_RANK_FIRST": str(8 * index), "ASTERISM_RANKS": "8",
            "PET_NNODES": "8", "PET_NPROC_PER_NODE": "8", "PET_NODE_RANK": str(index), "PET_RDZV_BACKEND": "static",
            "PET_RDZV_ENDPOINT": f"{master}:29500", "PET_RDZV_ID": f"{job.uid}-e{job.epoch}", "PET_MASTER_ADDR": master,
            "PET_MASTER_PORT": "29500", "PET_MAX_RESTARTS": "0"}
        require_equal({key: seen.get(key) for key in expected}, expected, f"environment of pod {index}")


@scenario()
def pods_are_named_labelled_and_pinned_as_promised(cluster):
    job = cluster.run_job("train", 32)
    for index, pod in enumerate(job.live_pods()):
        name, first = pod_facts.name(pod), 8 * index
        require(name.startswith("train-") and name.endswith(f"-r{first}-e{job.epoch}"), f"name {name}")
        require_equal((pod["spec"]["hostname"], pod["spec"]["subdomain"]), (f"train-r{first}", "train"), "hostname and subdomain")
        labels = pod["metadata"]["labels"]
        seen = {key: labels.get(f"asterism.dev/{key}") for key in ("job", "job-uid", "queue", "class", "live")}
        require_equal(seen, {"job": "train", "job-uid": job.uid, "queue": "default", "class": "finetuning", "live": "true"}, "labels")
        require_equal((pod_facts.annotation(pod, "ranks"), pod_facts.annotation(pod, "epoch"), pod_facts.annotation(pod, "pods")),
                      (f"{first}-{first + 7}", str(job.epoch), "4"), "annotations ranks, epoch, pods")
        spec = pod["spec"]
        require_equal((spec["schedulerName"], spec["restartPolicy"], pod_facts.pin(pod)), ("asterism", "Never", pod_facts.node(pod)), "spec")
        tolerated = {toleration.get("key") for toleration in spec["tolerations"]}
        require({"asterism.dev/managed", "nvidia.com/gpu"} <= tolerated, f"tolerations {tolerated}")
        owner = pod["metadata"]["ownerReferences"][0]
        require_equal((owner["kind"], owner["uid"], owner["controller"]), ("TrainingJob", job.uid, True), "owner")


@scenario()
def the_users_own_variables_win(cluster):
    job = cluster.run_job("train", 16, env={"MASTER_PORT": "4711", "NCCL_DEBUG": "INFO"})
    seen = pod_facts.environment(job.live_pods()[1])
    require_equal((seen["MASTER_PORT"], seen["NCCL_DEBUG"]), ("4711", "INFO"), "MASTER_PORT, NCCL_DEBUG")
    require_equal(seen["PET_RDZV_ENDPOINT"].rpartition(":")[2], "4711", "port of PET_RDZV_ENDPOINT")


@scenario()
def a_plain_process_gets_its_rank(cluster):
    job = cluster.run_job("plain", 4, framework="Plain", gpusPerPod=1, container={"image": "x", "command": ["sleep", "1"]})
    for rank, pod in enumerate(job.live_pods()):
        seen = pod_facts.environment(pod)
        require_equal((seen["RANK"], seen["LOCAL_RANK"], seen["WORLD_SIZE"]), (str(rank), "0", "4"), "RANK, LOCAL_RANK, WORLD_SIZE")
        require("PET_NNODES" not in seen, "torchrun's variables in a plain pod")


@scenario()
def deepspeed_gets_a_host_file_in_rank_order(cluster):
    job = cluster.run_job("deep", 32, framework="DeepSpeed", container={"image": "x", "command": ["torchrun", "train.py"]})
    path = pod_facts.environment(job.live_pods()[0])["ASTERISM_HOSTFILE"]
    spec = job.live_pods()[0]["spec"]
    mount = next((each for each in spec["containers"][0]["volumeMounts"] if path.startswith(each["mountPath"])), None)
    require(mount, f"nothing is mounted for {path}")
    name = next(volume["configMap"]["name"] for volume in spec["volumes"] if volume["name"] == mount["name"])
    lines = next(iter(cluster.api.get("ConfigMap", name, cluster.namespace)["data"].values())).split("\n")
    require_equal(lines[:4], [f"deep-r{rank}.deep.{cluster.namespace}.svc slots=8" for rank in range(0, 32, 8)], "host file")
    job.delete().wait_gone()
    cluster.wait_for(lambda: not cluster.api.get("ConfigMap", name, cluster.namespace), "the ConfigMap goes with the job")


@scenario()
def a_command_that_starts_one_rank_of_eight_is_warned_about(cluster):
    job = cluster.run_job("lonely", 8, container={"image": "x", "command": ["python", "train.py"]})
    warning = next((each for each in job.status()["conditions"] if "nobody starts the other ranks" in each.get("message", "")), None)
    require(warning and warning["status"] == "True", f"no warning in {[each['type'] for each in job.status()['conditions']]}")


@scenario()
def the_template_reaches_every_pod(cluster):
    template = {"metadata": {"labels": {"team": "vision"}, "annotations": {"note": "x"}},
                "spec": {"nodeSelector": {"nvidia.com/gpu.present": "true"}, "tolerations": [{"key": "mine", "operator": "Exists"}],
                         "containers": [{"name": "trainer", "env": [{"name": "FROM_TEMPLATE", "value": "1"}]}, {"name": "side", "image": "side:1"}]}}
    job = cluster.run_job("long", 16, template=template)
    for pod in job.live_pods():
        require_equal(pod["metadata"]["labels"].get("team"), "vision", "label")
        require_equal([container["name"] for container in pod["spec"]["containers"]], ["trainer", "side"], "containers")
        require_equal(pod_facts.environment(pod, "trainer").get("FROM_TEMPLATE"), "1", "variable of the template")
        require("mine" in {toleration.get("key") for toleration in pod["spec"]["tolerations"]}, "toleration of the template")
