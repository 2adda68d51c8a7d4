"""kubectl-asterism, the real program: what the cluster has free, why a job waits, where it runs, with one command each."""

import json
import os
import subprocess
import time

from harness import chart
from harness.command_line import CommandLine
from harness.failure import require, require_equal
from harness.scenario import LARGE, scenario

# What an answer may take at 1,280 nodes. Measured and printed; a busy machine fails no test.
_PROMISE_MS = 200


@scenario()
def one_command_shows_what_the_cluster_has_free(cluster):
    command = CommandLine(cluster)
    idle = command.run("topology", *command.direct).out
    require_equal(idle.splitlines(), ["cluster, 64 nodes: 512 of 512 GPUs free",
                                      "  16 supernodes, each 4 nodes: 32 of 32 GPUs free  sn-[0000-0015]",
                                      "supernode: declared for 64 nodes"], "an idle cluster")
    cluster.run_job("train", 128)
    cluster.cordon("gpu-0063")

    def gpus():
        page = json.loads(command.run("topology", *command.direct, "-o", "json", "--level", "cluster").out)
        return page["domains"][0]["gpus"]
    expected = {"total": 512, "free": 376, "held": 128, "spare": 0, "faulty": 8}
    cluster.wait_for(lambda: gpus() == expected, lambda: f"GPUs {expected}; shown are {gpus()}")
    wide = command.run("topology", *command.direct, "-o", "wide").out
    require(f"{cluster.namespace}/train" in wide and "node gpu-0063: 0 of 8 GPUs free, 8 faulty (not usable)" in wide, wide[:1000])
    require_equal(len(command.run("topology", *command.direct, "--level", "supernode").out.splitlines()), 19, "lines down to supernodes, and who says so")


@scenario()
def one_command_tells_why_a_job_waits_and_where_one_runs(cluster):
    command = CommandLine(cluster)
    job = cluster.run_job("train", 256)
    runs = command.run("explain", "train", "-n", cluster.namespace).out
    require("Running, 32/32 pods, epoch 1" in runs and "32 x node, 8 x supernode" in runs and "decided in" in runs, runs)
    structured = json.loads(command.run("explain", "tj/train", "-n", cluster.namespace, "-o", "json").out)
    require_equal((structured["outcome"], structured["placement"]["epoch"], structured["uid"]), ("Placed", job.epoch, job.uid), "explain -o json")

    cluster.submit_job("waits", 512).wait_waiting("NoCapacity")
    waits = command.run("explain", "waits", "-n", cluster.namespace, code=3).out
    require("waits: NoCapacity" in waits and "nearest change" in waits and "queue           default" in waits, waits)
    cluster.submit_job("never", 520).wait_waiting("NeverFits")
    require("will not run as it is: NeverFits" in command.run("explain", "never", "-n", cluster.namespace, code=4).out, "explain of what never fits")

    queue = command.run("queue").out
    require("default" in queue and queue.index("waits") < queue.index("NoCapacity"), queue)
    picture = json.loads(command.run("queue", "default", "-o", "json").out)
    require_equal({each["name"]: each["reason"] for each in picture["waiting"]}, {"waits": "NoCapacity", "never": "NeverFits"}, "waiting jobs")
    top = command.run("top", "-A").out.splitlines()
    require(top[0].startswith("3 jobs: 1 placed on 256 GPUs, 1 waiting for 512, 1 cannot run"), top[0])
    require_equal(top[3].split()[:5], [cluster.namespace, "train", "Running", "256", "32/32"], "first row of top")


@scenario()
def a_restart_is_explained_by_its_first_cause(cluster):
    job = cluster.run_job("fails", 32)
    job.annotate_pod(2, exit_code="3")
    job.wait_restarted()
    text = CommandLine(cluster).run("explain", "fails", "-n", cluster.namespace).out
    require("first cause     AppError of rank 16, exit code 3" in text, text)


@scenario()
def top_redraws_on_a_terminal_until_ctrl_c(cluster):
    command = CommandLine(cluster)
    cluster.run_job("train", 64)
    code, drawn = command.on_terminal("top", "-n", cluster.namespace, interrupt_at="Running")
    require_equal(code, 0, "exit code after Ctrl-C")
    require(drawn.startswith("\x1b[?1049h") and drawn.rstrip().endswith("\x1b[?1049l"), f"the terminal is not as it was: {drawn[-200:]!r}")
    require("\x1b[32mRunning\x1b[0m" in drawn, "no colour on a terminal")
    code, drawn = command.on_terminal("explain", "train", "-n", cluster.namespace)
    require_equal((code, "\x1b[?1049h" in drawn), (0, False), "exit code of explain on a terminal, a screen of its own")


@scenario()
def what_is_wrong_is_one_line_with_the_way_out(cluster):
    command = CommandLine(cluster)
    cluster.run_job("train", 8)

    def says(expected, *words, code=1, who=command):
        error = who.run(*words, code=code).error
        require(expected in error, f"kubectl-asterism {' '.join(words)}: {expected!r} expected, it says {error!r}")
    says('did you mean "train"?', "explain", "trian", "-n", cluster.namespace)
    says('did you mean "topology"?', "topolgy", code=2)
    says("use json, yaml or wide", "top", "-o", "xml", code=2)
    says("is not a level of this cluster (node, supernode, cluster)", "topology", *command.direct, "--level", "rack", code=2)
    says("does not answer", "topology", "--server", "http://127.0.0.1:1")
    says("does not answer", "version", "--server", "http://127.0.0.1:1")
    says('no context named "other"', "top", "--context", "other")
    says("or Asterism is not installed there", "topology", "--controller-namespace", "kube-system")

    nobody = CommandLine(cluster, cluster.rig.kubeconfig(f"{cluster.namespace}/default"))
    says("asterism-view", "explain", "train", "-n", cluster.namespace, who=nobody)
    says("services/proxy", "topology", who=nobody)
    version = command.run("version", *command.direct).out
    require("controller: " in version and "does not lead" not in version, version)


@scenario()
def the_controller_is_reached_through_the_api_server_with_the_users_own_right(cluster):
    address = own_address()
    if not address:
        print("   skipped: this machine has no address but loopback, and the API server's proxy takes no such", flush=True)
        return
    # The controller runs beside the cluster; a pod that has its address stands for it, since the proxy goes to pods only.
    cluster.api.create({"kind": "Pod", "metadata": {"name": "controller-0", "namespace": chart.NAMESPACE},
                        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]}})
    cluster.api.patch("Pod", "controller-0", {"status": {"podIP": address, "podIPs": [{"ip": address}]}}, chart.NAMESPACE, "status")
    cluster.defer(lambda: cluster.api.delete("Pod", "controller-0", chart.NAMESPACE, gracePeriodSeconds=0))
    restart_controller(cluster, POD_IP=address, POD_NAME="controller-0")
    cluster.defer(lambda: restart_controller(cluster))

    command = CommandLine(cluster)
    cluster.wait_for(lambda: command.attempt("version")[0] == 0, lambda: f"the way through the proxy: {command.attempt('version')}", 20)
    require(command.run("topology").out.startswith("cluster, 64 nodes: 512 of 512 GPUs free"), "topology through the proxy")

    role = {"metadata": {"name": "asterism-topology", "namespace": chart.NAMESPACE}}
    rule = {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": ["https:asterism-extender:diagnosis"], "verbs": ["get"]}
    account = {"kind": "ServiceAccount", "name": "default", "namespace": cluster.namespace}
    user = CommandLine(cluster, cluster.rig.kubeconfig(f"{cluster.namespace}/default"))
    require("services/proxy" in user.run("topology", code=1).error, "it is not refused without the right")
    objects = [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", **role, "rules": [rule]},
               {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", **role, "subjects": [account],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "asterism-topology"}}]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    cluster.rig.kubectl("apply", "--filename", "-", text=text)
    cluster.defer(lambda: cluster.rig.kubectl("delete", "--filename", "-", text=text))
    cluster.wait_for(lambda: user.attempt("topology")[0] == 0, lambda: f"the Role of the documentation is enough: {user.attempt('topology')}", 20)


def own_address():
    """An IPv4 address of this machine that is not loopback; None where there is none."""
    words = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=False).stdout.split()
    return next((word for word in words if word.count(".") == 3 and not word.startswith(("127.", "169.254."))), None)


def restart_controller(cluster, **environment):
    """With these variables, and without what an earlier call set."""
    for name in ("POD_IP", "POD_NAME"):
        os.environ.pop(name, None)
    os.environ.update(environment)
    cluster.controller.terminate()
    cluster.ensure_controller()


@scenario(nodes=LARGE)
def answers_at_1280_nodes_are_measured(cluster):
    command = CommandLine(cluster)
    jobs = [cluster.submit_job(f"train-{number}", 1024) for number in range(9)]
    for job in jobs:
        job.wait_state("Running", 240)
    cluster.submit_job("waits", 10240).wait_waiting("NoCapacity")
    lines = command.run("topology", *command.direct).out.splitlines()
    require(len(lines) <= 30, f"{len(lines)} lines do not fit a screen")
    for words, code in ((("topology", *command.direct), 0), (("topology", *command.direct, "-o", "wide"), 0),
                        (("explain", job.name, "-n", cluster.namespace), 0), (("explain", "waits", "-n", cluster.namespace), 3),
                        (("queue",), 0), (("top", "-A"), 0), (("version", *command.direct), 0)):
        median = command.median_ms(*words, code=code)
        print(f"   kubectl asterism {words[0]}{' -o wide' if 'wide' in words else ''}: median of 5 {median:.0f} ms"
              f"{'' if median <= _PROMISE_MS else f', more than the {_PROMISE_MS} ms that are promised'}", flush=True)
        time.sleep(0.01)
