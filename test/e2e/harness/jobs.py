"""Objects that scenarios create: TrainingJobs, queues, pods of other people."""

from harness.pods import GPU

SCHEDULER = "asterism"
IMAGE = "registry.example/train:1"


def training_job(name, gpus, namespace="e2e", behaviour=None, cpu=None, memory=None, env=None, **spec):
    """`behaviour`: what simulated pods do, {"run-seconds": 5}; see test/rig/README.md. Other arguments go into spec."""
    container = {"image": IMAGE, "command": ["torchrun", "train.py"]}
    if wanted := _amounts(cpu=cpu, memory=memory):
        container["resources"] = {"requests": wanted, "limits": wanted}
    if env:
        container["env"] = [{"name": key, "value": value} for key, value in env.items()]
    # No back-off: scenarios that are about it state their own.
    spec = {"gpus": gpus, "container": container, "failurePolicy": {"backoffSeconds": 0}, **spec}
    if behaviour:
        annotations = {f"rig.asterism.dev/{key}": str(value) for key, value in behaviour.items()}
        spec["template"] = {"metadata": {"annotations": annotations}, "spec": {"containers": []}}
    return {"apiVersion": "asterism.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def headless_service(job):
    """The Service of a gang whose pods somebody makes by hand."""
    return {"kind": "Service",
            "metadata": {"name": job["metadata"]["name"], "namespace": job["metadata"]["namespace"]},
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True,
                     "selector": {"asterism.dev/job-uid": job["metadata"]["uid"], "asterism.dev/live": "true"}}}


def pod(name, gpus=0, namespace="e2e", scheduler=None, node=None, cpu=None, memory=None, behaviour=None):
    """A pod of somebody else. `node`: bound at creation. `scheduler`: the cluster's own where absent."""
    wanted = _amounts(cpu=cpu, memory=memory, **{GPU: gpus})
    spec = {"containers": [{"name": "main", "image": IMAGE, "resources": {"limits": wanted, "requests": wanted}}],
            "tolerations": [{"operator": "Exists"}], "terminationGracePeriodSeconds": 0}
    if scheduler:
        spec["schedulerName"] = scheduler
    if node:
        spec["nodeName"] = node
    annotations = {f"rig.asterism.dev/{key}": str(value) for key, value in (behaviour or {}).items()}
    return {"kind": "Pod", "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec}


def _amounts(**amounts):
    return {name: str(amount) for name, amount in amounts.items() if amount}


def queue(name, **spec):
    return {"kind": "Queue", "metadata": {"name": name}, "spec": spec}


def service(name, namespace="e2e"):
    """A Service of somebody else."""
    spec = {"selector": {"app": "of-somebody-else"}, "ports": [{"port": 80}]}
    return {"kind": "Service", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
