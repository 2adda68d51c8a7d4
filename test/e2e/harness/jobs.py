"""Objects that scenarios create: TrainingJobs, queues, pods of other people."""

from harness.pods import GPU

SCHEDULER = "asterism"
IMAGE = "registry.example/train:1"


def training_job(name, gpus, namespace="e2e", behaviour=None, cpu=None, env=None, **spec):
    """`behaviour`: what simulated pods do, {"run-seconds": 5}; see test/rig/README.md. Other arguments go into spec."""
    container = {"image": IMAGE, "command": ["torchrun", "train.py"]}
    if cpu:
        container["resources"] = {"requests": {"cpu": str(cpu)}, "limits": {"cpu": str(cpu)}}
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    # No back-off: scenarios that are about it state their own.
    spec = {"gpus": gpus, "container": container, "failurePolicy": {"backoffSeconds": 0}, **spec}
    if behaviour:
        annotations = {f"rig.asterism.dev/{key}": str(value) for key, value in behaviour.items()}
        spec["template"] = {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
    return {"apiVersion": "asterism.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pod(name, gpus=0, namespace="e2e", scheduler=None, node=None, cpu=None, behaviour=None):
    """A pod of somebody else. `node`: bound at creation. `scheduler`: the cluster's own where absent."""
    wanted = {GPU: str(gpus)} if gpus else {}
    if cpu:
        wanted["cpu"] = str(cpu)
    spec = {"containers": [{"name": "main", "image": IMAGE, "resources": {"limits": wanted, "requests": wanted}}],
            "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}
    if scheduler:
        spec["schedulerName"] = scheduler
    if node:
        spec["nodeName"] = node
    annotations = {f"rig.asterism.dev/{key}": str(value) for key, value in (behaviour or {}).items()}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec}


def queue(name, **spec):
    return {"kind": "Queue", "metadata": {"name": name}, "spec": spec}
