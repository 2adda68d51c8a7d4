"""What a pod object says: GPUs, ranks, epoch, pin, environment."""

GPU = "nvidia.com/gpu"
JOB_UID = "asterism.dev/job-uid"
LIVE = "asterism.dev/live"


def gpus(pod):
    def wanted(container):
        resources = container.get("resources", {})
        return int(resources.get("requests", resources.get("limits", {})).get(GPU, 0))
    spec = pod["spec"]
    return max([sum(map(wanted, spec["containers"])), *map(wanted, spec.get("initContainers", []))])


def name(pod):
    return pod["metadata"]["name"]


def uid(pod):
    return pod["metadata"]["uid"]


def node(pod):
    return pod["spec"].get("nodeName")


def job_uid(pod):
    return pod["metadata"].get("labels", {}).get(JOB_UID)


def phase(pod):
    return pod.get("status", {}).get("phase")


def ended(pod):
    return phase(pod) in ("Succeeded", "Failed")


def deleting(pod):
    return "deletionTimestamp" in pod["metadata"]


def annotation(pod, key):
    return pod["metadata"].get("annotations", {}).get(f"asterism.dev/{key}")


def epoch(pod):
    return int(annotation(pod, "epoch"))


def ranks(pod):
    """(first, last)."""
    first, last = annotation(pod, "ranks").split("-")
    return int(first), int(last)


def pin(pod):
    """The one node that the pod's affinity names; None where it names none or several."""
    required = pod["spec"].get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    names = [value for term in required.get("nodeSelectorTerms", []) for field in term.get("matchFields", [])
             if field["key"] == "metadata.name" for value in field["values"]]
    return names[0] if len(set(names)) == 1 else None


def environment(pod, container=None):
    """{name: value} of the container's variables that have a plain value."""
    for item in pod["spec"]["containers"]:
        if container in (None, item["name"]):
            return {variable["name"]: variable.get("value") for variable in item.get("env", [])}
    return {}


def held(pods):
    """{node: GPUs of the pods on it that have not ended}."""
    total = {}
    for pod in pods:
        if node(pod) and not ended(pod):
            total[node(pod)] = total.get(node(pod), 0) + gpus(pod)
    return total
