"""What has to hold on real nodes. Each scenario starts with all nodes well, all of Asterism Ready, and no job."""

import json
import random
import re
import subprocess
import time

from real_cluster import AGENTS, MPI_IMAGE, ROOT, SECURITY, SYSTEM
from real_gpus import GPUS_OF_NODE, gpu_id, nvlink_domain
from harness.failure import Failed, require

NAMESPACE = "tenant"
_DOMAIN_LABEL = "asterism.dev/domain-supernode"
_SLEEP = "import time; time.sleep(600)"
_TELL = ("import json, os; print(json.dumps({k: os.environ.get(k) for k in "
         "('RANK', 'ASTERISM_RANK_FIRST', 'ASTERISM_RANKS', 'NVIDIA_VISIBLE_DEVICES', 'ASTERISM_PORT')}), flush=True); ")


def _devices(pod_log):
    return sorted(json.loads(pod_log.splitlines()[0])["NVIDIA_VISIBLE_DEVICES"].split(","))


def _blocks(cluster, name):
    gang = next(each for each in cluster.ledger()["gangs"] if each["name"] == f"{NAMESPACE}/{name}")
    return {block["firstRank"]: block for block in gang["blocks"]}


def _nodes_of(status):
    """Node of each pod in rank order: "real-[0-1,3]", "real-2*3", with commas between."""
    names = []
    for run in status["placement"]["runs"]:
        for prefix, ranges, times in re.findall(r"([a-z-]+(?:\d+(?!\d*\[))?)(?:\[([0-9,-]+)\])?(?:\*(\d+))?", run["nodes"]):
            numbers = []
            for part in filter(None, ranges.split(",")):
                first, _, last = part.partition("-")
                numbers += range(int(first), int(last or first) + 1)
            names += [f"{prefix}{number}" for number in numbers] or [prefix] * int(times or 1)
    return names


# ---- where ranks run ----

def ranks_run_where_the_placement_says_with_the_devices_of_the_ledger(cluster):
    """Whole nodes and parts of nodes, also after the leader was replaced."""
    whole = cluster.submit("whole", 16, _TELL + _SLEEP, NAMESPACE, processesPerPod=1)
    part = cluster.submit("part", 6, _TELL + _SLEEP, NAMESPACE, gpusPerPod=2)
    for job, gpus in ((whole, 8), (part, 2)):
        status = job.wait_state("Running")
        pods = job.pods()
        require([pods[rank]["spec"]["nodeName"] for rank in sorted(pods)] == _nodes_of(status),
                f"{job.name}: pods run on {[pod['spec']['nodeName'] for pod in pods.values()]}, status says {status['placement']['runs']}")
        for rank, pod in pods.items():
            seen = _devices(job.logs(rank))
            number = cluster.nodes.index(pod["spec"]["nodeName"])
            require(len(seen) == gpus, f"{job.name} rank {rank} has {seen}")
            require(set(seen) <= {gpu_id(number, index) for index in range(GPUS_OF_NODE)}, f"{job.name} rank {rank} has devices of another node")
            cluster.wait(lambda job=job, rank=rank, seen=seen: _blocks(cluster, job.name)[rank].get("devices") == seen,
                         f"the ledger has the devices {seen} of {job.name} rank {rank}")
    before = {job.name: {rank: _devices(job.logs(rank)) for rank in job.pods()} for job in (whole, part)}
    leader = cluster.leader()["metadata"]["name"]
    cluster.rig.kubectl("delete", "pod", "-n", SYSTEM, leader, "--force", "--grace-period=0")
    cluster.wait(lambda: (cluster.leader() or {"metadata": {"name": leader}})["metadata"]["name"] != leader, "another leads")
    for job in (whole, part):
        for rank, seen in before[job.name].items():
            cluster.wait(lambda job=job, rank=rank, seen=seen: _blocks(cluster, job.name)[rank].get("devices") == seen,
                         f"the new leader's ledger has the devices of {job.name} rank {rank}")
        require(job.status()["state"] == "Running", f"{job.name} was disturbed")


def an_unhealthy_gpu_is_given_to_nobody_and_an_event_names_it(cluster):
    node = cluster.nodes[1]
    cluster.write_gpus(node, broken=(3,))
    cluster.wait(lambda: cluster.allocatable(node, "nvidia.com/gpu") == GPUS_OF_NODE - 1, "kubelet offers seven GPUs")
    name = gpu_id(1, 3)
    cluster.wait(lambda: any(event.get("reason") == "DeviceUnhealthy" and name in (event.get("note") or event.get("message", ""))
                             and event["regarding"]["name"] == node
                             for event in cluster.get("events.events.k8s.io")), f"an event of {node} names {name}")
    job = cluster.submit("seven", 7, _TELL + _SLEEP, NAMESPACE, gpusPerPod=7,
                         template={"spec": {"containers": [], "nodeSelector": {"kubernetes.io/os": "linux"}}})
    job.wait_state("Running")
    for rank in job.pods():
        require(name not in _devices(job.logs(rank)), "a pod got the broken GPU")
    whole = cluster.submit("all", 32, _SLEEP, NAMESPACE)
    cluster.wait(lambda: whole.status().get("waiting", {}).get("reason"), "a job that wants every GPU waits")
    whole.delete()
    cluster.write_gpus(node)
    cluster.wait(lambda: any(event.get("reason") == "DeviceHealthy" and name in (event.get("note") or "")
                             for event in cluster.get("events.events.k8s.io")), "an event says that it is back")


def agents_measure_what_kubelet_gives_out_and_the_ledger_holds(cluster):
    """The driver's library (a fake), PodResources and the ledger name the same GPUs; domains are those that the library tells."""
    domains = {node: nvlink_domain(number) for number, node in enumerate(cluster.nodes)}
    def told():
        return {node: cluster.get("node", node)["metadata"]["labels"].get(_DOMAIN_LABEL) for node in cluster.nodes}
    try:
        cluster.wait(lambda: told() == domains, "all nodes carry the NVLink domain that their agent measures")
    except Failed as error:
        raise Failed(f"{error}; they carry {told()}, the topology is {json.dumps((cluster.get('clustertopology', 'cluster') or {}).get('status'))}") from None
    job = cluster.submit("all", len(cluster.nodes) * GPUS_OF_NODE, _SLEEP, NAMESPACE)
    job.wait_state("Running")
    for rank, pod in job.pods().items():
        node = pod["spec"]["nodeName"]
        measured = sorted(gpu["uuid"] for gpu in _measure(cluster, node)["gpus"]["gpus"])
        require(measured == [gpu_id(cluster.nodes.index(node), index) for index in range(GPUS_OF_NODE)], f"the agent of {node} measures {measured}")
        cluster.wait(lambda rank=rank, measured=measured: _blocks(cluster, job.name)[rank].get("devices") == measured,
                     f"the ledger has of rank {rank} what PodResources says: {measured}")
    job.delete()
    node = cluster.nodes[2]
    cluster.write_gpus(node, links_down=(5,))
    cluster.wait(lambda: any(each.startswith("nvlink-link-down") and node in each for each in _anomalies(cluster)), f"a link of {node} is told to be down")
    cluster.write_gpus(node)
    cluster.wait(lambda: not any(each.startswith("nvlink-link-down") for each in _anomalies(cluster)), "it is told to be up")


def _anomalies(cluster):
    return (cluster.get("clustertopology", "cluster") or {}).get("status", {}).get("anomalies", [])


def _measure(cluster, node):
    """What the agent's program finds in the agent's own pod."""
    agent = next(pod for pod in cluster.ready_pods(AGENTS, "agent") if pod["spec"]["nodeName"] == node)
    arguments = [word for word in agent["spec"]["containers"][0]["args"] if word.startswith(("--sysfs=", "--nvml-libraries="))]
    return json.loads(cluster.rig.kubectl("exec", "-n", AGENTS, agent["metadata"]["name"], "--", "/usr/local/bin/asterism-agent", "--measure", *arguments))


# ---- how jobs end ----

def the_first_cause_is_named_with_rank_and_exit_code(cluster):
    """Two ranks a pod; the second one of the second pod ends first, then torchrun's way: all others are ended, exit code 1."""
    program = ("import os, subprocess, sys, time\n"
               "first = int(os.environ['ASTERISM_RANK_FIRST'])\n"
               "def start(rank):\n"
               "    code = 'import time; time.sleep(%d); raise SystemExit(13)' % (3 if rank == 3 else 600)\n"
               "    return subprocess.Popen([sys.executable, '-c', code], env={**os.environ, 'RANK': str(rank)})\n"
               "ranks = [start(first + i) for i in range(2)]\n"
               "while all(each.poll() is None for each in ranks): time.sleep(0.05)\n"
               "for each in ranks: each.terminate()\n"
               "raise SystemExit(1)\n")
    job = cluster.submit("cause", 4, program, NAMESPACE, gpusPerPod=2, processesPerPod=2,
                         failurePolicy={"maxRestarts": 1, "backoffSeconds": 0})
    job.wait_state("Failed", patience_s=120)
    restarts = job.status()["restarts"]
    last = restarts["last"]
    require((last["reason"], last["rank"], last.get("exitCode")) == ("AppError", 3, 13), f"the first cause is {last}")
    require(restarts["count"] == 1, f"{restarts['count']} restarts instead of one")


def running_out_of_memory_is_told(cluster):
    job = cluster.submit("greedy", 1, "data = []\nwhile True: data.append(bytearray(1 << 20))", NAMESPACE,
                         container={"resources": {"limits": {"memory": "64Mi", "cpu": "200m"}}}, sharedMemory="Off",
                         failurePolicy={"maxRestarts": 0, "backoffSeconds": 0})
    job.wait_state("Failed", patience_s=120)
    last = job.status()["restarts"]["last"]
    require(last["reason"] == "OOMKilled" and last["rank"] == 0, f"the first cause is {last}")


def a_hang_ends_at_the_deadline_that_the_job_states(cluster):
    program = ("import time\n"
               "for step in range(5):\n"
               "    print('{\"step\": %d}' % step, file=open('/tmp/progress', 'a'), flush=True); time.sleep(0.5)\n"
               "time.sleep(600)\n")
    job = cluster.submit("hangs", 1, program, NAMESPACE, progress={"file": "/tmp/progress", "deadlineSeconds": 8},
                         failurePolicy={"maxRestarts": 0, "backoffSeconds": 0})
    cluster.wait(lambda: "progress" in job.status(), "the job's progress is told")
    job.wait_state("Failed", patience_s=120)
    last = job.status()["restarts"]["last"]
    require("no progress for 8 s" in last["message"] and last["reason"] == "AppError", f"the first cause is {last}")


def a_job_whose_agents_are_away_is_no_hung_one(cluster):
    program = ("import time\n"
               "for step in range(10000):\n"
               "    print('{\"step\": %d}' % step, file=open('/tmp/progress', 'a'), flush=True); time.sleep(0.25)\n")
    job = cluster.submit("works-on", 1, program, NAMESPACE, progress={"file": "/tmp/progress", "deadlineSeconds": 6},
                         failurePolicy={"maxRestarts": 0, "backoffSeconds": 0})
    cluster.wait(lambda: "progress" in job.status(), "the job's progress is told")
    _send_agents_to(cluster, {"no": "where"})
    try:
        cluster.wait(lambda: not cluster.get("pods", namespace=AGENTS), "the agents are gone")
        time.sleep(14)  # two deadlines
        require(job.status()["state"] == "Running" and not job.status().get("restarts", {}).get("count"), f"the job is {job.status()}")
        cluster.wait(lambda: _condition(job, "ProgressUnreadable").get("reason") == "NotHeard", "the job says that nobody hears of its progress")
        last = job.status()["progress"]["step"]
    finally:
        _send_agents_to(cluster, None)
        cluster.wait_ready()
    cluster.wait(lambda: job.status()["progress"]["step"] > last, "its progress is told again")
    cluster.wait(lambda: not _condition(job, "ProgressUnreadable"), "the condition is gone")


def _send_agents_to(cluster, selector):
    patch = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
    cluster.rig.kubectl("-n", AGENTS, "patch", "daemonset", "asterism-agent", "--patch", json.dumps(patch))


def _condition(job, kind):
    return next((each for each in job.status().get("conditions", []) if each["type"] == kind), {})


def an_image_that_cannot_be_had_is_told(cluster):
    job = cluster.submit("nowhere", 1, _SLEEP, NAMESPACE, image="rig.asterism.dev/no-such-image:1")
    def told():
        conditions = {each["type"]: each for each in job.status().get("conditions", [])}
        running = conditions.get("Running", {})
        return running if running.get("reason") in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull") else None
    running = cluster.wait(told, "the condition Running says that the image cannot be pulled")
    require("rank 0" in running["message"] and "no-such-image" in running["message"], f"it says {running['message']}")


def node_failures_are_not_counted_and_app_failures_are(cluster):
    # Kubernetes itself gives a lost node 300 s.
    soon = [{"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
            for taint in ("unreachable", "not-ready")]
    job = cluster.submit("patient", 8, _SLEEP, NAMESPACE, failurePolicy={"maxRestarts": 0, "backoffSeconds": 0},
                         template={"spec": {"containers": [], "tolerations": soon}})
    node = job.wait_state("Running") and next(iter(job.pods().values()))["spec"]["nodeName"]
    cluster.node(node, "kill")
    try:
        cluster.wait(lambda: job.status().get("restarts", {}).get("count") == 1 and job.status()["state"] == "Running",
                     "the job runs elsewhere", patience_s=150)
        require(job.status()["restarts"].get("counted", 0) == 0, f"a lost node was counted: {job.status()['restarts']}")
        require(next(iter(job.pods().values()))["spec"]["nodeName"] != node, "it went back to the lost node")
    finally:
        cluster.node(node, "start")


# ---- what dies while a job runs ----

def a_job_outlives_the_programs_around_it(cluster):
    """kill -9 of kubelet, containerd, both controllers and kube-schedulers: the processes of the job are the same after it."""
    program = ("import os, time\n"
               "while True:\n"
               "    print(os.getpid(), time.time(), file=open('/tmp/alive', 'a'), flush=True); time.sleep(0.2)\n")
    job = cluster.submit("robust", 16, program, NAMESPACE)
    job.wait_state("Running")
    before = {rank: pod["metadata"]["uid"] for rank, pod in job.pods().items()}
    node = job.pods()[0]["spec"]["nodeName"]
    for victim in ("kubelet", "containerd"):
        cluster.node(node, "kill", victim)
        time.sleep(3)
        cluster.node(node, "start", victim)
    # A kubelet that finds no containerd while it starts ends itself. Elsewhere systemd starts it again; the rig has none.
    cluster.wait(lambda: "kubelet does not run" not in cluster.node(node, "status") or not cluster.node(node, "start", "kubelet"),
                 "the kubelet stays up")
    for namespace, component in ((SYSTEM, "controller"), (SYSTEM, "scheduler"), (AGENTS, "agent")):
        cluster.rig.kubectl("delete", "pods", "-n", namespace, "-l", f"app.kubernetes.io/component={component}", "--force", "--grace-period=0")
    cluster.wait_ready()
    require({rank: pod["metadata"]["uid"] for rank, pod in job.pods().items()} == before, "pods were replaced")
    status = job.status()
    require(status["state"] == "Running" and not status.get("restarts", {}).get("count"), f"the job was disturbed: {json.dumps(status)[:600]}")
    lines = cluster.wait(lambda: cluster.rig.kubectl("exec", "-n", NAMESPACE, job.pods()[0]["metadata"]["name"], "-c", "trainer", "--",
                                                     "cat", "/tmp/alive", check=False).splitlines(), "the job's own record can be read")
    pids = {line.split()[0] for line in lines}
    times = [float(line.split()[1]) for line in lines]
    require(len(pids) == 1, f"the program was started again: {pids}")
    gap = max(later - earlier for earlier, later in zip(times, times[1:]))
    require(gap < 30, f"the program stood still for {gap:.0f} s")


def pods_of_a_node_that_is_cut_off_are_not_counted_free(cluster):
    job = cluster.submit("cut", 8, _SLEEP, NAMESPACE, failurePolicy={"maxRestarts": 0, "backoffSeconds": 0})
    job.wait_state("Running")
    node = next(iter(job.pods().values()))["spec"]["nodeName"]
    if node == cluster.leader()["spec"]["nodeName"]:
        cluster.rig.kubectl("delete", "pod", "-n", SYSTEM, cluster.leader()["metadata"]["name"])
        cluster.wait(lambda: (cluster.leader() or {"spec": {"nodeName": node}})["spec"]["nodeName"] != node, "another node leads")
    cluster.node(node, "cut")
    try:
        cluster.wait(lambda: not _ready(cluster, node), "the node is NotReady", patience_s=120)
        used = [each for each in cluster.ledger()["nodes"] if each["name"] == node]
        require(not used or not used[0]["usable"] or used[0]["used"].get("nvidia.com/gpu") == 8,
                f"GPUs of a node that nobody hears of are free: {used}")
    finally:
        cluster.node(node, "join")
    cluster.wait(lambda: _ready(cluster, node), "the node is back")


def _ready(cluster, node):
    return any(each["type"] == "Ready" and each["status"] == "True" for each in cluster.get("node", node)["status"]["conditions"])


def an_upgrade_of_the_chart_disturbs_no_job(cluster):
    job = cluster.submit("steady", 8, _SLEEP, NAMESPACE)
    job.wait_state("Running")
    before = next(iter(job.pods().values()))["metadata"]["uid"]
    cluster.helm("upgrade", "--set", "controller.podAnnotations.example\\.org/upgrade=x", "--set", "agents.podAnnotations.example\\.org/upgrade=x")
    cluster.rig.kubectl("rollout", "status", "-n", SYSTEM, "deployment/asterism-controller", "--timeout=120s")
    cluster.rig.kubectl("rollout", "status", "-n", AGENTS, "daemonset/asterism-agent", "--timeout=120s")
    cluster.wait_ready()
    pod = next(iter(job.pods().values()))
    require(pod["metadata"]["uid"] == before and not pod["status"]["containerStatuses"][0]["restartCount"], "the pod was replaced")
    require(not job.status().get("restarts", {}).get("count"), "the job was restarted")


# ---- MPI, Plain ----

def an_mpi_job_runs_without_sshd(cluster):
    program = ("from mpi4py import MPI\n"
               "c = MPI.COMM_WORLD\n"
               "total = c.allreduce(c.Get_rank() + 1)\n"
               "hosts = c.gather(MPI.Get_processor_name())\n"
               "if c.Get_rank() == 0: print('sum', total, 'of', c.Get_size(), 'on', len(set(hosts)), flush=True)\n")
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mpi", "namespace": NAMESPACE}, "data": {"sum.py": program}})
    job = cluster.submit("mpi", 8, "", NAMESPACE, image=MPI_IMAGE, framework="MPI", gpusPerPod=2,
                         command=["sh", "-c", 'exec mpirun --hostfile "$ASTERISM_HOSTFILE" python3 /opt/mpi/sum.py'],
                         placement={"policy": "Spread"}, volumes=[{"name": "program", "configMap": {"name": "mpi"}}],
                         container={"volumeMounts": [{"name": "program", "mountPath": "/opt/mpi", "readOnly": True}]})
    job.wait_state("Succeeded", patience_s=150)
    require("sum 36 of 8 on 4" in job.logs(0), f"rank 0 printed: {job.logs(0)[-500:]}")


# ---- who may do what ----

def a_pod_cannot_speak_for_another_job(cluster):
    """It sends the agent the end of a job that is not its own; that job goes on."""
    victim = cluster.submit("victim", 1, _SLEEP, NAMESPACE)
    victim.wait_state("Running")
    uid = victim.pods()[0]["metadata"]["uid"]
    node = victim.pods()[0]["spec"]["nodeName"]
    # WorkerState with job, epoch and an exit of code 1, written by hand.
    program = ("import os, socket, time\n"
               "s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET); s.connect(os.environ['ASTERISM_PORT'])\n"
               f"job = b'{NAMESPACE}/victim'\n"
               "s.send(b'\\x0a' + bytes([len(job)]) + job + b'\\x10\\x01' + b'\\x42\\x04\\x10\\x00\\x18\\x01')\n"
               "print('welcome', s.recv(4096), flush=True)\n"
               "time.sleep(600)\n")
    liar = cluster.submit("liar", 1, program, NAMESPACE, template={"spec": {"containers": [], "nodeSelector": {"kubernetes.io/os": "linux"}}},
                          failurePolicy={"maxRestarts": 0, "backoffSeconds": 0})
    cluster.wait(lambda: liar.status().get("state") in ("Running", "Failed"), "the liar runs")
    time.sleep(3)
    require(victim.status()["state"] == "Running" and not victim.status().get("restarts", {}).get("count"), "the victim was ended")
    require(victim.pods()[0]["metadata"]["uid"] == uid, "the victim's pod was replaced")
    require(node, "the victim has a node")


def a_tenant_runs_jobs_in_its_namespace_only(cluster):
    cluster.rig.kubectl("create", "rolebinding", "ada", "--clusterrole=edit", "--user=ada", "-n", NAMESPACE, check=False)
    cluster.make_namespace("other")
    answers = {namespace: cluster.rig.kubectl("auth", "can-i", "create", "trainingjobs.asterism.dev", "--as=ada", "-n", namespace, check=False).strip()
               for namespace in (NAMESPACE, "other")}
    require(answers == {NAMESPACE: "yes", "other": "no"}, f"ada may create jobs: {answers}")


# ---- training ----

def a_real_torchrun_job_trains_to_the_loss_of_a_run_by_hand(cluster):
    """The same program, world size and seed without any cluster: the final loss is the same to six digits."""
    torch = subprocess.run([ROOT / "test/rig/pytorch"], capture_output=True, text=True, timeout=900, check=False)
    if torch.returncode:
        return f"PyTorch cannot be installed: {torch.stderr.strip()[-300:]}"
    steps = "20"
    by_hand = subprocess.Popen(  # pylint: disable=consider-using-with
        [ROOT / "examples/ddp-tiny/by-hand", "4", "2", "--steps", steps], stdout=subprocess.PIPE, text=True,
        env={"PATH": f"{torch.stdout.split()[-1]}/bin:/usr/bin:/bin", "HOME": "/root", "OMP_NUM_THREADS": "1"})
    try:
        expected, _ = by_hand.communicate(timeout=240)
    finally:
        by_hand.kill()
    cluster.rig.kubectl("apply", "-f", ROOT / "examples/ddp-tiny/pytorch-volume.yaml")
    cluster.rig.kubectl("create", "configmap", "ddp-tiny", f"--from-file={ROOT}/examples/ddp-tiny/train.py", "-n", "default", check=False)
    text = (ROOT / "examples/ddp-tiny/job.yaml").read_text(encoding="utf-8").replace('"300"', f'"{steps}"')
    cluster.rig.kubectl("apply", "-f", "-", text=text)
    from real_cluster import RealJob  # pylint: disable=import-outside-toplevel
    job = RealJob(cluster, "ddp-tiny", "default")
    try:
        job.wait_state("Succeeded", patience_s=240)
        losses = [json.loads(output.splitlines()[-1])["loss"] for output in (expected, job.logs(0))]
        require(losses[0] == losses[1], f"by hand {losses[0]}, as a TrainingJob {losses[1]}")
        require(job.status().get("progress", {}).get("step", 0) > 0, "no progress was told")
    finally:
        job.delete()
    return None


# ---- churn ----

def jobs_that_come_and_go_leave_nothing(cluster, seconds=30):
    seed = random.SystemRandom().randrange(1 << 30)
    rng = random.Random(seed)
    before = {node: _footprint(cluster, node) for node in cluster.nodes}
    live = {}
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        name = f"churn-{number}"
        number += 1
        sizes = (1, 2, 8, 16, 64, 256) if cluster.simulated else (1, 2, 4, 8, 16)
        live[name] = cluster.submit(name, rng.choice(sizes), f"import time; time.sleep({rng.choice((1, 3, 600))})", NAMESPACE)
        if len(live) > 4:
            live.pop(rng.choice(list(live))).delete()
        # Deleted in every phase: at once, while it starts, while it runs, after its end.
        time.sleep(rng.choice((0, rng.random(), 3 * rng.random())))
    for job in live.values():
        job.delete()
    try:
        cluster.wait(lambda: not cluster.get("pods", namespace=NAMESPACE), "no pod is left", patience_s=120)
        cluster.wait(lambda: not [each for each in cluster.get("services", namespace=NAMESPACE)], "no Service is left")
        cluster.wait(lambda: not cluster.ledger()["gangs"], "the ledger is empty")
        cluster.wait(lambda: all(not each["used"].get("nvidia.com/gpu") for each in cluster.ledger()["nodes"]), "all GPUs are free")
        for node in cluster.nodes:
            def gone(node=node):
                left = {what: now for what, now in _footprint(cluster, node).items() if now > before[node][what]}
                return not left or None
            cluster.wait(gone, f"what {node} has is what it had: {before[node]}")
    except Failed as error:
        raise Failed(f"seed {seed}, {number} jobs: {error}") from None


# What containers leave behind when something forgets them.
_COUNTS = {
    "containers": "ctr -n k8s.io containers list -q",
    "tasks": "ctr -n k8s.io tasks list -q",
    "mounts": "grep -e /kubelet/pods/ -e /io.containerd.runtime -e /netns/ /proc/self/mountinfo",
    "control groups": "find /sys/fs/cgroup -type d -path '*kubepods*' -name 'pod*'",
    "network namespaces": "ls /run/netns",
}


def _footprint(cluster, node):
    script = "".join(f"echo $({command} 2>/dev/null | wc -l);" for command in _COUNTS.values())
    return dict(zip(_COUNTS, map(int, cluster.node(node, "run", "sh", "-c", script).split()), strict=True))


SCENARIOS = (
    ranks_run_where_the_placement_says_with_the_devices_of_the_ledger,
    an_unhealthy_gpu_is_given_to_nobody_and_an_event_names_it,
    agents_measure_what_kubelet_gives_out_and_the_ledger_holds,
    the_first_cause_is_named_with_rank_and_exit_code,
    running_out_of_memory_is_told,
    a_hang_ends_at_the_deadline_that_the_job_states,
    a_job_whose_agents_are_away_is_no_hung_one,
    an_image_that_cannot_be_had_is_told,
    an_mpi_job_runs_without_sshd,
    a_pod_cannot_speak_for_another_job,
    a_tenant_runs_jobs_in_its_namespace_only,
    a_real_torchrun_job_trains_to_the_loss_of_a_run_by_hand,
    an_upgrade_of_the_chart_disturbs_no_job,
    a_job_outlives_the_programs_around_it,
    jobs_that_come_and_go_leave_nothing,
    pods_of_a_node_that_is_cut_off_are_not_counted_free,
    node_failures_are_not_counted_and_app_failures_are,
)
assert SECURITY and MPI_IMAGE
