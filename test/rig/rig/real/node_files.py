"""The configuration files of a node: container runtime, pod network, kubelet, kube-proxy. Paths are the usual ones."""

import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from rig import kubeconfigs

PROGRAMS = "/opt/rig/bin"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "rig.asterism.dev/pause:1"
LAYER_LABEL = "rig.asterism.dev/layer"
GPU_PRODUCT = "Asterism-Test-GPU"
_KERNEL_FILES = "etc/rig/kernel"
# What the kubelet wants them to be. It would set them for the whole machine.
_KERNEL_SETTINGS = {"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
                    "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}

_CONTAINERD = f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "{CONTAINERD_SOCKET}"

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE no process may protect itself, and every pod would fail.
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "/etc/cni/net.d"

[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "/usr/sbin/runc"
SystemdCgroup = false
"""


@dataclass(frozen=True)
class Identity:
    """What a node shows to the API server, and what it knows it by."""
    api_url: str
    authority: Path
    user: str
    certificate: Path
    key: Path
    serving_certificate: Path
    serving_key: Path
    proxy_certificate: Path
    proxy_key: Path


def labels(number, gpus, nodes_per_supernode):
    return {
        LAYER_LABEL: "real", "asterism.dev/declared-supernode": f"sn-real-{number // nodes_per_supernode}",
        "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": str(gpus), "nvidia.com/gpu.product": GPU_PRODUCT,
    }


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text if isinstance(text, str) else json.dumps(text, indent=1) + "\n", encoding="utf-8")


def _pod_network(subnet):
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [
        # An interface of its own for each pod, so that every packet passes the rules of kube-proxy, also to a pod beside it.
        {"type": "ptp", "ipMasq": False, "ipam": {
            "type": "host-local", "dataDir": "/var/lib/cni/networks", "ranges": [[{"subnet": subnet}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}


def _kubelet(plan, lease_seconds):
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}", "cgroupDriver": "cgroupfs", "failCgroupV1": False,
        "failSwapOn": False, "evictionHard": {}, "imageGCHighThresholdPercent": 100,
        "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": "/etc/kubernetes/ca.crt"}},
        "authorization": {"mode": "Webhook"}, "tlsCertFile": "/etc/kubernetes/kubelet.crt", "tlsPrivateKeyFile": "/etc/kubernetes/kubelet.key",
        "clusterDomain": "cluster.local", "clusterDNS": [plan.dns_service], "resolvConf": "/etc/resolv.conf",
        "nodeLeaseDurationSeconds": lease_seconds, "maxPods": 110, "readOnlyPort": 0,
    }


def _kube_proxy(plan, name):
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables", "hostnameOverride": name,
        "clientConnection": {"kubeconfig": "/etc/kubernetes/kube-proxy.kubeconfig"}, "clusterCIDR": plan.all_pods,
        # These are settings of the whole machine.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "detectLocalMode": "ClusterCIDR",
    }


def write(root, plan, number, name, identity, lease_seconds):
    _write(root / "etc/containerd/config.toml", _CONTAINERD)
    _write(root / "etc/cni/net.d/10-pods.conflist", _pod_network(plan.pods(number)))
    _write(root / "etc/hostname", f"{name}\n")
    _write(root / "etc/hosts", f"127.0.0.1 localhost\n{plan.node(number)} {name}\n")
    _write(root / "etc/resolv.conf", f"nameserver {plan.switch}\n")
    _write(root / "etc/machine-id", uuid.uuid5(uuid.NAMESPACE_DNS, f"{root}/{name}").hex + "\n")
    kubernetes = root / "etc/kubernetes"
    _write(kubernetes / "kubelet.yaml", _kubelet(plan, lease_seconds))
    _write(kubernetes / "kube-proxy.yaml", _kube_proxy(plan, name))
    shutil.copyfile(identity.authority, kubernetes / "ca.crt")
    shutil.copyfile(identity.serving_certificate, kubernetes / "kubelet.crt")
    shutil.copyfile(identity.serving_key, kubernetes / "kubelet.key")
    kubeconfigs.with_certificate(kubernetes / "kubelet.kubeconfig", identity.api_url, identity.authority, identity.user, identity.certificate, identity.key)
    kubeconfigs.with_certificate(kubernetes / "kube-proxy.kubeconfig", identity.api_url, identity.authority, "system:kube-proxy",
                                 identity.proxy_certificate, identity.proxy_key)


def write_kernel_files(root):
    """Files that lie over those of the kernel: [(file, path in the node)]. A node that starts again has a new boot id."""
    overlaid = []
    boot_id = {"kernel/random/boot_id": str(uuid.uuid4())}
    for name, value in {**_KERNEL_SETTINGS, **boot_id}.items():
        file = root / _KERNEL_FILES / name.replace("/", "-")
        _write(file, f"{value}\n")
        overlaid.append((str(file), f"/proc/sys/{name}"))
    return overlaid


def command_lines(plan, number, name, node_labels):
    """{program: argv}, in the order of start."""
    return {
        "containerd": [f"{PROGRAMS}/containerd", "--config=/etc/containerd/config.toml", "--log-level=warn"],
        "kubelet": [f"{PROGRAMS}/kubelet", "--config=/etc/kubernetes/kubelet.yaml", "--kubeconfig=/etc/kubernetes/kubelet.kubeconfig",
                    f"--hostname-override={name}", f"--node-ip={plan.node(number)}",
                    "--node-labels=" + ",".join(f"{key}={value}" for key, value in node_labels.items())],
        "kube-proxy": [f"{PROGRAMS}/kube-proxy", "--config=/etc/kubernetes/kube-proxy.yaml"],
    }
