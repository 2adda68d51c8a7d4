"""Real nodes: pods run programs, and reach each other, services, names and the API server, but nothing outside."""

from pathlib import Path

from checks.harness import require, wait_until
from rig.api_client import ApiError
from rig.real import node_files

IMAGE = "rig.asterism.dev/job:1"
_NAMESPACE = "checks"
_CORE = f"/api/v1/namespaces/{_NAMESPACE}"
_SERVE = "python3 -u -m http.server 8000 --directory /etc"
# Names come from CoreDNS, addresses through kube-proxy.
_FETCH = "import urllib.request as r; print(len(r.urlopen('http://web.checks.svc:8000/passwd', timeout=10).read()))"
_ASK_API = """
import ssl, urllib.request
folder = '/var/run/secrets/kubernetes.io/serviceaccount/'
request = urllib.request.Request('https://kubernetes.default.svc/api', headers={'Authorization': 'Bearer ' + open(folder + 'token').read()})
print(urllib.request.urlopen(request, timeout=10, context=ssl.create_default_context(cafile=folder + 'ca.crt')).status)
"""
_LEAVE = """
import socket
for address in ('192.0.2.1', '8.8.8.8', '172.16.0.1'):
    try:
        socket.create_connection((address, 53), timeout=2)
    except OSError as error:
        print('no way out:', address, error)
    else:
        print('a connection to', address)
"""
# What the standard `restricted` of Kubernetes asks for.
RESTRICTED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "runAsNonRoot": True, "readOnlyRootFilesystem": True,
               "seccompProfile": {"type": "RuntimeDefault"}}


def pod(name, command, node=None, restart="Never", **more):
    selector = {"kubernetes.io/hostname": node} if node else {node_files.LAYER_LABEL: "real"}
    container = {"name": "main", "image": IMAGE, "command": command, "imagePullPolicy": "Never", "securityContext": RESTRICTED}
    container.update(more.pop("container", {}))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 1, "nodeSelector": selector, "containers": [container], **more}}


class Pods:
    """Pods of a namespace that enforces `restricted`."""

    def __init__(self, client):
        self.client = client

    def make_namespace(self):
        self.client.post("/api/v1/namespaces", {"metadata": {"name": _NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
        def account():
            try:
                return self.client.get(f"{_CORE}/serviceaccounts/default")
            except ApiError:
                return None
        wait_until(account, "the namespace has its ServiceAccount")

    def create(self, *arguments, **named):
        body = pod(*arguments, **named)
        self.client.post(f"{_CORE}/pods", body)
        return body["metadata"]["name"]

    def get(self, name):
        return self.client.get(f"{_CORE}/pods/{name}")

    def await_phase(self, name, *phases, timeout_s=60.0):
        def arrived():
            found = self.get(name)
            return found if found["status"]["phase"] in phases else None
        try:
            return wait_until(arrived, f"pod {name} is {' or '.join(phases)}", timeout_s)
        except Exception as error:
            raise type(error)(f"{error}; {self.get(name)['status']}") from None

    def log(self, name):
        return self.client.get(f"{_CORE}/pods/{name}/log")

    def output(self, name, script, node, **more):
        """What a Python script prints in a pod of its own."""
        self.create(name, ["python3", "-c", script], node, **more)
        found = self.await_phase(name, "Succeeded", "Failed")
        text = self.log(name)
        require(found["status"]["phase"] == "Succeeded", f"{name} failed: {text}")
        return text

    def delete(self, name):
        self.client.delete(f"{_CORE}/pods/{name}")

    def ready_condition(self, node):
        found = self.client.get(f"/api/v1/nodes/{node}")
        return next(entry["status"] for entry in found["status"]["conditions"] if entry["type"] == "Ready")


class RealPodChecks:
    """Expects a rig with three real nodes or more, and the image `job` on them."""

    def __init__(self, harness, rig_name):
        self.harness = harness
        self.rig_name = rig_name
        self.client = harness.client(rig_name)
        self.pods = Pods(self.client)

    def nodes(self):
        names = self.harness.environment(self.rig_name)["ASTERISM_RIG_REAL_NODES"].split()
        found = {item["metadata"]["name"]: item for item in self.client.get("/api/v1/nodes")["items"]}
        boot_ids = set()
        for name in names:
            require(self.pods.ready_condition(name) == "True", f"{name} is not Ready")
            require(not found[name]["spec"].get("taints"), f"{name} is tainted")
            require(found[name]["metadata"]["labels"]["asterism.dev/declared-supernode"].startswith("sn-real-"), "no supernode")
            boot_ids.add(found[name]["status"]["nodeInfo"]["bootID"])
            socket = self.harness.folder(self.rig_name) / "nodes" / name / "root/var/lib/kubelet/device-plugins/kubelet.sock"
            require(socket.is_socket(), f"no socket for device plug-ins: {socket}")
        require(len(boot_ids) == len(names), f"nodes share a boot id: {boot_ids}")
        require(Path("/proc/sys/kernel/random/boot_id").read_text().strip() not in boot_ids, "a node shows the boot id of this machine")
        return f"{len(names)} nodes"

    def exit_codes_and_logs(self):
        self.pods.make_namespace()
        self.pods.create("fails", ["sh", "-c", "echo out; echo err >&2; id -u; exit 3"])
        found = self.pods.await_phase("fails", "Failed")
        ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
        require(ended["exitCode"] == 3 and ended["reason"] == "Error", f"{ended}")
        require(sorted(self.pods.log("fails").split()) == ["65532", "err", "out"], self.pods.log("fails"))

    def out_of_memory(self):
        self.pods.create("eats", ["python3", "-c", "x = bytearray(200 << 20)"], container={"resources": {"limits": {"memory": "64Mi"}}})
        ended = self.pods.await_phase("eats", "Failed")["status"]["containerStatuses"][0]["state"]["terminated"]
        require((ended["reason"], ended["exitCode"]) == ("OOMKilled", 137), f"{ended}")

    def services_and_names(self):
        self.pods.create("web", ["sh", "-c", _SERVE], "real-0")
        self.client.post(f"{_CORE}/services", {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 8000}]}})
        self.pods.await_phase("web", "Running")
        for node in ("real-0", "real-1"):
            require(int(self.pods.output(f"fetch-{node}", _FETCH, node)) > 50, "nothing was served")

    def peer_names(self):
        """As ranks of a job find rank 0."""
        self.client.post(f"{_CORE}/services", {"metadata": {"name": "peers"}, "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"app": "rank0"}, "ports": [{"port": 8000}]}})
        self.pods.create("rank0", ["sleep", "600"], "real-2", hostname="rank0", subdomain="peers")
        address = self.pods.await_phase("rank0", "Running")["status"]["podIP"]
        script = "import socket, time\nfor _ in range(50):\n  try: print(socket.gethostbyname('rank0.peers.checks.svc')); break\n  except OSError: time.sleep(0.1)"
        require(self.pods.output("asks", script, "real-1").strip() == address, "the name leads elsewhere")
        self.pods.delete("rank0")

    def from_this_machine(self):
        """The API server forwards to pods, and programs on this machine reach services."""
        require("root" in self.client.get(f"{_CORE}/pods/web:8000/proxy/passwd"), "the API server does not reach the pod")
        address = self.client.get(f"{_CORE}/services/web")["spec"]["clusterIP"]
        self.harness.run("node", self.rig_name, "real-2", "run", "--", "python3", "-c", f"import urllib.request as r; r.urlopen('http://{address}:8000/', timeout=5)")
        import urllib.request
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        require(opener.open(f"http://{address}:8000/passwd", timeout=5).status == 200, "this machine does not reach the service")

    def tokens(self):
        require(self.pods.output("asks-api", _ASK_API, "real-1").strip() == "200", "the API server does not answer with the pod's token")

    def no_way_out(self):
        text = self.pods.output("leaves", _LEAVE, "real-0")
        require(text.count("no way out") == 3, text)
        for name in self.harness.environment(self.rig_name)["ASTERISM_RIG_REAL_NODES"].split():
            routed = self.harness.run("node", self.rig_name, name, "run", "--", "ip", "route", "get", "8.8.8.8", expect=2)
            require("unreachable" in routed, routed)

    def boot_id(self):
        """A container has a /proc of its own, which tells of the machine; a file of the node tells of the node."""
        self.client.post("/api/v1/namespaces/default/pods", pod(
            "boot-id", ["cat", "/node/boot_id"], "real-1", container={"volumeMounts": [{"name": "boot", "mountPath": "/node/boot_id", "readOnly": True}]},
            volumes=[{"name": "boot", "hostPath": {"path": "/proc/sys/kernel/random/boot_id", "type": "File"}}]))
        wait_until(lambda: self.client.get("/api/v1/namespaces/default/pods/boot-id")["status"]["phase"] == "Succeeded", "the pod ends")
        text = self.client.get("/api/v1/namespaces/default/pods/boot-id/log").strip()
        require(text == self.client.get("/api/v1/nodes/real-1")["status"]["nodeInfo"]["bootID"], text)

    def read_only_volume(self):
        """How a job in a namespace with `restricted` gets a folder of the node: through a volume that an administrator made."""
        self.client.post("/api/v1/persistentvolumes", {"metadata": {"name": "checks"}, "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadOnlyMany"], "storageClassName": "", "hostPath": {"path": "/opt/pytorch"},
            "claimRef": {"namespace": _NAMESPACE, "name": "pytorch"}}})
        self.client.post(f"{_CORE}/persistentvolumeclaims", {"metadata": {"name": "pytorch"}, "spec": {
            "accessModes": ["ReadOnlyMany"], "storageClassName": "", "volumeName": "checks", "resources": {"requests": {"storage": "1Gi"}}}})
        script = "import os; print(os.statvfs('/opt/pytorch').f_flag & os.ST_RDONLY)"
        text = self.pods.output("mounts", script, "real-1", container={"volumeMounts": [{"name": "pytorch", "mountPath": "/opt/pytorch", "readOnly": True}]},
                                volumes=[{"name": "pytorch", "persistentVolumeClaim": {"claimName": "pytorch", "readOnly": True}}])
        require(text.strip() == "1", text)

    def run(self):
        for title, body in (
            ("nodes are Ready, each with a boot id and a socket for device plug-ins of its own", self.nodes),
            ("a pod in a restricted namespace: output, user and exit code", self.exit_codes_and_logs),
            ("a pod that takes too much memory is OOMKilled", self.out_of_memory),
            ("a service by its name, from the same node and from another", self.services_and_names),
            ("a headless service names its pods", self.peer_names),
            ("pods and services from this machine", self.from_this_machine),
            ("a pod reaches the API server with its token", self.tokens),
            ("no packet of a pod leaves the machine", self.no_way_out),
            ("a pod that mounts the boot id of its node sees what the kubelet reports", self.boot_id),
            ("a folder of the node, read-only, through a claim", self.read_only_volume),
        ):
            self.harness.check(title, body)
        self.client.close()
