"""Prints the job as it runs: the tree of the topology, the rank map, the time of each stage, and how to look further."""

import subprocess

from harness import command_line, placement, places, pods as pod_facts

_LEVEL = "supernode"
_SHOWN = 3


def everything(demo, seconds):
    job, pods, nodes = demo.job(), demo.pods(), demo.nodes()
    pods = sorted((pod for pod in pods if pod_facts.job_uid(pod)), key=lambda pod: pod_facts.ranks(pod)[0])
    supernode_of = {node["metadata"]["name"]: node["metadata"]["labels"][placement.SUPERNODE_LABEL] for node in nodes}
    print()
    tree(job, pods, supernode_of, demo.rig.gpus_per_node)
    origins = topology(demo.rig, "--server", f"https://localhost:{demo.metrics_port}",
                       "--certificate-authority", demo.rig["ASTERISM_EXTENDER_CA"])
    print(next((line for line in origins if line.startswith(f"{_LEVEL}: ")), ""))
    print()
    rank_map(pods, supernode_of)
    print()
    stages(job, len(pods), seconds)


def topology(rig, *options):
    """The lines of `kubectl asterism topology`."""
    done = subprocess.run([command_line.program(), "topology", *options], env=rig.environment(), capture_output=True, text=True, check=False)
    return (done.stdout or done.stderr).splitlines()


def tree(job, pods, supernode_of, gpus_per_node):
    ranks = {}
    for pod in pods:
        ranks.setdefault(supernode_of[pod_facts.node(pod)], []).append(pod)
    sizes = {}
    for name in supernode_of.values():
        sizes[name] = sizes.get(name, 0) + 1
    held = sum(map(pod_facts.gpus, pods))
    name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
    print(f"cluster                  {len(supernode_of):,} nodes, {len(supernode_of) * gpus_per_node:,} GPUs, {held} held by {name}")
    holders = sorted(ranks, key=lambda domain: pod_facts.ranks(ranks[domain][0])[0])
    for index, domain in enumerate(holders):
        own = ranks[domain]
        if _SHOWN <= index < len(holders) - 1:
            if index == _SHOWN:
                between = [pod for each in holders[_SHOWN:-1] for pod in ranks[each]]
                print(f"├─ {len(holders) - 1 - _SHOWN} supernodes         {holders[_SHOWN]} to {holders[-2]}, {_span(between)}")
            continue
        print(f"├─ supernode {domain:<12}{sum(map(pod_facts.gpus, own))} of {sizes[domain] * gpus_per_node} GPUs held, {_span(own)}")
        if index == 0:
            for number, pod in enumerate(own):
                branch = "└─" if number == len(own) - 1 else "├─"
                print(f"│  {branch} node {pod_facts.node(pod):<14}{_span([pod])}")
    free = len(sizes) - len(holders)
    print(f"└─ {free} supernodes        free")
    for level in job["status"]["placement"]["levels"]:
        if level["level"] == _LEVEL:
            print(f"The ring over the ranks leaves a supernode {level.get('ringCuts', 0)} times; "
                  f"{level.get('ringCutsMinimum', 0)} is the least that {level['domains']} supernodes allow.")


def _span(pods):
    return f"ranks {pod_facts.ranks(pods[0])[0]} to {pod_facts.ranks(pods[-1])[1]}"


def rank_map(pods, supernode_of):
    print(f"{'ranks':<12}{'node':<12}{'supernode':<12}pod")
    for index, pod in enumerate(pods):
        if _SHOWN < index < len(pods) - 2:
            if index == _SHOWN + 1:
                print(f"... {len(pods) - _SHOWN - 3} more")
            continue
        first, last = pod_facts.ranks(pod)
        print(f"{f'{first}-{last}':<12}{pod_facts.node(pod):<12}{supernode_of[pod_facts.node(pod)]:<12}{pod_facts.name(pod)}")


def stages(job, count, seconds):
    timings = job["status"]["timings"]
    print("stage       time        what")
    rows = [("queued", f"{timings.get('queuedMilliseconds', 0)} ms", "admission, dry run of one pod, turn in the queue"),
            ("decide", f"{timings.get('decideMicroseconds', 0)} us", "one placement decision: nodes and rank order"),
            ("commit", f"{timings.get('commitMilliseconds', 0)} ms", f"create {count} pinned pods, and the last bind by kube-scheduler"),
            ("start", f"{timings.get('startMilliseconds', 0)} ms", "last bind until all pods are Running (simulated)"),
            ("all", f"{seconds * 1000:.0f} ms", "from `kubectl apply` until the job is Running, as this program saw it")]
    for stage, value, what in rows:
        print(f"{stage:<12}{value:<12}{what}")


def how_to_go_on(demo):
    environment = f"{demo.rig['ASTERISM_RIG_DIR']}/rig.env"
    metrics = f"https://localhost:{demo.metrics_port}"
    print(f"""It goes on running. Look further:

    . {environment}; export PATH=$ASTERISM_RIG_BIN:{places.SOURCE / "build/ci/cli"}:$PATH
    kubectl get trainingjobs,queues -A
    kubectl asterism explain llama -n research
    kubectl asterism topology --server https://localhost:{demo.metrics_port} --certificate-authority $ASTERISM_EXTENDER_CA
    kubectl -n research describe tj llama
    kubectl -n research get pods -o wide
    curl -s --cacert $ASTERISM_EXTENDER_CA {metrics}/metrics | grep ^asterism_ | grep -v _bucket   # also /healthz /readyz /configz
    less {demo.log}

The controller runs as a process, so the chart's Deployments are scaled to 0: `kubectl -n asterism-system get all` shows 0/0.
{_how_to_fail_a_rank(demo)}
Stop it:

    make demo-stop""")


def _how_to_fail_a_rank(demo):
    """Nothing where no pod of the job runs: it may be deleted, or just between two epochs."""
    pod = running_pod(demo.job(), demo.pods())
    if pod is None:
        return ""
    return f"""
Let a rank fail, and see the gang restart under a new epoch:

    kubectl -n research annotate pod {pod_facts.name(pod)} rig.asterism.dev/exit-code=1
    kubectl -n research get tj llama -o wide --watch      # Ctrl-C ends it
"""


def running_pod(job, pods):
    """The pod of the first rank that runs where the placement that holds now puts it; None where none does."""
    if job is None:
        return None
    current = set(placement.blocks(job.get("status", {})))
    found = [pod for pod in pods if pod_facts.job_uid(pod) == job["metadata"]["uid"] and pod_facts.phase(pod) == "Running"
             and not pod_facts.deleting(pod) and (pod_facts.ranks(pod)[0], pod_facts.node(pod), pod_facts.epoch(pod)) in current]
    return min(found, key=lambda pod: pod_facts.ranks(pod)[0], default=None)
