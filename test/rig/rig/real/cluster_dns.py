"""CoreDNS of a rig with real nodes. It runs beside the switch, not in a pod, so that names stay when a node is lost."""

from rig.api_client import ApiError

USER = "system:coredns"
READY_PORT = 8181
_CONFIGURATION = """\
.:53 {{
    bind {address}
    errors
    ready {address}:{ready_port}
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig "{kubeconfig}"
        pods insecure
        ttl 5
    }}
}}
"""
_RULES = [
    {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
    {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
]
_NAME = "kube-dns"
_NAMESPACE = "kube-system"


def write_configuration(path, plan, kubeconfig):
    path.write_text(_CONFIGURATION.format(address=plan.switch, ready_port=READY_PORT, kubeconfig=kubeconfig), encoding="utf-8")


def command_line(program, configuration, switch_pid):
    return ["nsenter", f"--net=/proc/{switch_pid}/ns/net", program, f"-conf={configuration}"]


def create_objects(client, plan):
    """Rights of CoreDNS, and the Service that the nodes send pods to."""
    ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
    rbac = "rbac.authorization.k8s.io"
    for path, body in (
        (f"/apis/{rbac}/v1/clusterroles", {"metadata": {"name": USER}, "rules": _RULES}),
        (f"/apis/{rbac}/v1/clusterrolebindings", {
            "metadata": {"name": USER}, "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": USER},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": USER}]}),
        (f"/api/v1/namespaces/{_NAMESPACE}/services", {"metadata": {"name": _NAME}, "spec": {"clusterIP": plan.dns_service, "ports": ports}}),
        (f"/apis/discovery.k8s.io/v1/namespaces/{_NAMESPACE}/endpointslices", {
            "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}}, "addressType": "IPv4", "ports": ports,
            "endpoints": [{"addresses": [plan.switch], "conditions": {"ready": True}}]}),
    ):
        try:
            client.post(path, body)
        except ApiError as error:
            if error.status != 409:
                raise
