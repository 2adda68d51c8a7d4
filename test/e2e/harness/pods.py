"""What a pod object says: resources, ranks, epoch, pin, environment."""

from collections import Counter

from harness import quantities

GPU = "nvidia.com/gpu"
JOB_UID = "asterism.dev/job-uid"
LIVE = "asterism.dev/live"


def requests(pod):
    """{resource: amount} that the pod holds where it is bound, itself counted as "pods"."""
    def wanted(container):
        resources = container.get("resources", {})
        return Counter(quantities.amounts({**resources.get("limits", {}), **resources.get("requests", {})}))
    together = sum(map(wanted, pod["spec"]["containers"]), Counter())
    for container in pod["spec"].get("initContainers", []):
        together |= wanted(container)       # one after the other, before the rest starts
    return together + Counter(pods=1)


def gpus(pod):
    return requests(pod)[GPU]


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
    """{node: requests of the pods on it that have not ended}."""
    total = {}
    for pod in pods:
        if node(pod) and not ended(pod):
            total[node(pod)] = total.get(node(pod), Counter()) + requests(pod)
    return total
