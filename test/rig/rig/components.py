"""The parts of a rig: their command lines and how each tells that it is ready."""

from dataclasses import dataclass

from rig import places
from rig.ports import ADDRESS
from rig.real import cluster_dns

ETCD = "etcd"
API_SERVER = "kube-apiserver"
CONTROLLER_MANAGER = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
ASTERISM_SCHEDULER = "asterism-scheduler"
KWOK = "kwok"
COREDNS = "coredns"
# In the order of start.
ALL = (ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, ASTERISM_SCHEDULER, KWOK, COREDNS)
_ETCD_QUOTA_BYTES = 8 * 2**30
_LEASE_SECONDS = 40


@dataclass(frozen=True)
class Context:
    """What command lines are made of."""
    folder: object  # of the rig
    ports: dict
    options: object
    real: object = None  # real.nodes.Settings, where there are real nodes
    switch_pid: int = None

    def program(self, name):
        return str(self.folder / "bin" / name)

    def certificate(self, name):
        return str(self.folder / "certificates" / name)

    def kubeconfig(self, name):
        return str(self.folder / "kubeconfigs" / f"{name}.kubeconfig")


def urls(found):
    """{component: URL}, of all that have a port in the state `found` of a rig."""
    plain = {ETCD, KWOK, COREDNS}
    addresses = found.get("addresses", {})
    return {name: f"{'http' if name in plain else 'https'}://{addresses.get(name, ADDRESS)}:{found['ports'][name]}"
            for name in ALL if name in found["ports"]}


READY_PATH = {ETCD: "/readyz", API_SERVER: "/readyz", CONTROLLER_MANAGER: "/healthz", SCHEDULER: "/readyz",
              ASTERISM_SCHEDULER: "/readyz", KWOK: "/healthz", COREDNS: "/ready"}


def command_lines(context, names):
    """Returns {name: argv}. Arguments given by --component-arg come last and win."""
    makers = {ETCD: _etcd, API_SERVER: _api_server, CONTROLLER_MANAGER: _controller_manager, SCHEDULER: _scheduler,
              ASTERISM_SCHEDULER: _scheduler, KWOK: _kwok, COREDNS: _coredns}
    return {name: makers[name](context, name) + context.options.component_arguments.get(name, []) for name in names}


def _etcd(context, name):
    client = f"http://{ADDRESS}:{context.ports['etcd']}"
    peer = f"http://{ADDRESS}:{context.ports['etcd_peer']}"
    return [
        context.program(name), "--name=rig", f"--data-dir={context.folder / 'etcd'}",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=rig={peer}",
        # A rig is thrown away after a crash of the machine: no need to wait for the disk.
        "--unsafe-no-fsync", f"--quota-backend-bytes={_ETCD_QUOTA_BYTES}", "--log-level=warn",
    ]


def _serving(context):
    return [f"--tls-cert-file={context.certificate('server.crt')}", f"--tls-private-key-file={context.certificate('server.key')}",
            f"--client-ca-file={context.certificate('ca.crt')}"]


def _api_server(context, name):
    options = context.options
    disabled = list(options.disabled_admission)
    if not options.node_lifecycle:
        # It taints new nodes not-ready, and only the node lifecycle controller takes that away.
        disabled.append("TaintNodesByCondition")
    arguments = [
        context.program(name), f"--etcd-servers=http://{ADDRESS}:{context.ports['etcd']}",
        f"--secure-port={context.ports[name]}", *_serving(context), *_reachable(context), "--allow-privileged=true",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={context.certificate('service-account.pub')}",
        f"--service-account-signing-key-file={context.certificate('service-account.key')}",
        "--authorization-mode=Node,RBAC",
        f"--max-requests-inflight={options.max_requests_inflight}",
        f"--max-mutating-requests-inflight={options.max_mutating_requests_inflight}",
        # Ends within seconds although watches are open; else a stop lasts a minute.
        "--shutdown-send-retry-after=true",
    ]
    if disabled:
        arguments.append(f"--disable-admission-plugins={','.join(disabled)}")
    if options.audit:
        arguments += [f"--audit-policy-file={places.CONFIG / 'audit-policy.yaml'}",
                      f"--audit-log-path={context.folder / 'logs' / 'audit.log'}", "--audit-log-maxsize=1000"]
    return arguments


def _reachable(context):
    """Pods and kubelets of real nodes do not reach 127.0.0.1, and kubelets have logs to give."""
    if context.real is None:
        return [f"--bind-address={ADDRESS}", f"--advertise-address={ADDRESS}", "--service-cluster-ip-range=10.0.0.0/16",
                "--endpoint-reconciler-type=none"]
    plan = context.real.plan
    return [f"--bind-address={plan.host}", f"--advertise-address={plan.host}", f"--service-cluster-ip-range={plan.services}",
            "--endpoint-reconciler-type=lease", "--enable-admission-plugins=NodeRestriction",
            f"--kubelet-certificate-authority={context.certificate('ca.crt')}", "--kubelet-preferred-address-types=InternalIP",
            f"--kubelet-client-certificate={context.certificate('admin.crt')}", f"--kubelet-client-key={context.certificate('admin.key')}"]


def _delegated_access(context, name):
    # Without these the metrics of the program answer nobody.
    own = context.kubeconfig(name)
    return [f"--authentication-kubeconfig={own}", f"--authorization-kubeconfig={own}", "--authentication-skip-lookup=true"]


def _controller_manager(context, name):
    controllers = "*" if context.options.node_lifecycle else "*,-node-lifecycle-controller"
    grace = context.options.node_grace_s
    # It looks often enough to keep to the time.
    noticing = [f"--node-monitor-grace-period={grace}s", f"--node-monitor-period={max(1, grace // 8)}s"] if grace else []
    return [
        context.program(name), f"--kubeconfig={context.kubeconfig(name)}",
        f"--bind-address={ADDRESS}", f"--secure-port={context.ports[name]}", *_serving(context), *_delegated_access(context, name),
        "--leader-elect=false", "--use-service-account-credentials=true", "--kube-api-qps=5000", "--kube-api-burst=10000",
        f"--service-account-private-key-file={context.certificate('service-account.key')}",
        f"--root-ca-file={context.certificate('ca.crt')}", f"--controllers={controllers}", *noticing,
    ]


def _scheduler(context, name):
    return [
        context.program("kube-scheduler"), f"--config={context.folder / 'config' / name}.json",
        f"--bind-address={ADDRESS}", f"--secure-port={context.ports[name]}", *_serving(context), *_delegated_access(context, name),
    ]


def lease_duration(options):
    """Nodes renew after a quarter of it; the controllers wait for longer than it before they call a node lost."""
    return max(4, options.node_grace_s * 3 // 4) if options.node_grace_s else _LEASE_SECONDS


def _kwok(context, name):
    lease_seconds = lease_duration(context.options) if context.options.node_lifecycle else 0
    return [
        context.program(name), f"--kubeconfig={context.kubeconfig('admin')}", f"--config={places.CONFIG / 'stages.yaml'}",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake", f"--server-address={ADDRESS}:{context.ports[name]}",
        # Only as a flag does 0 mean "no leases".
        f"--node-lease-duration-seconds={lease_seconds}",
    ]


def _coredns(context, _name):
    return cluster_dns.command_line(context.program(COREDNS), str(context.folder / "config" / "Corefile"), context.switch_pid)
