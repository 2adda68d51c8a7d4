"""What pods get of the launcher. Simulated nodes run no program and have no agent; test/real shows it at work."""

from harness import jobs, pods as pod_facts
from harness.failure import require, require_equal
from harness.scenario import scenario

PROGRAM = "/opt/asterism/asterism-launch"


def _trainer(pod):
    return next(each for each in pod["spec"]["containers"] if each["name"] == "trainer")


@scenario()
def the_command_of_a_job_runs_under_the_launcher(cluster):
    job = cluster.submit(jobs.training_job("train", 16))
    job.wait_state("Running")
    for pod in job.live_pods():
        require_equal(_trainer(pod)["command"], [PROGRAM, "--", "torchrun", "train.py"], "command")
        require_equal([each["name"] for each in pod["spec"]["initContainers"]], ["asterism-launch"], "init containers")
        require("asterism.dev/port" not in _trainer(pod)["resources"]["limits"], "a pod asks for a port that its node does not offer")


@scenario()
def a_job_without_the_launcher_keeps_its_command(cluster):
    job = cluster.submit(jobs.training_job("plain", 8, launcher="Off"))
    job.wait_state("Running")
    pod = job.live_pods()[0]
    require_equal(_trainer(pod)["command"], ["torchrun", "train.py"], "command")
    require("initContainers" not in pod["spec"], "there is an init container")


@scenario()
def the_ranks_of_an_mpi_job_share_a_key_of_their_own(cluster):
    job = cluster.submit(jobs.training_job("mpi", 24, framework="MPI"))
    job.wait_state("Running")
    pods = sorted(job.live_pods(), key=lambda pod: pod_facts.ranks(pod)[0])
    require_equal([_trainer(pod)["command"][2:] for pod in pods], [["torchrun", "train.py"], *[[PROGRAM, "worker"]] * 2], "commands in rank order")
    secrets = {next(each["secret"]["secretName"] for each in pod["spec"]["volumes"] if each["name"] == "asterism-key") for pod in pods}
    require_equal(len(secrets), 1, "number of keys")
    name = secrets.pop()
    secret = cluster.api.get("Secret", name, cluster.namespace)
    require_equal([(owner["kind"], owner["uid"]) for owner in secret["metadata"]["ownerReferences"]], [("TrainingJob", job.uid)], "owner of the key")
    job.delete()
    job.wait_gone()
    cluster.wait_for(lambda: not cluster.api.get("Secret", name, cluster.namespace), lambda: f"Secret {name} is left")
