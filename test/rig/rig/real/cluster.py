"""The part of `up` that makes the real layer: network, nodes, CoreDNS."""

import os
import shutil

from rig import components, kubeconfigs
from rig.real import addresses, cluster_dns, footprint, images, node_files, nodes

_PROXY_USER = "system:kube-proxy"


class RealLayer:
    """Its steps, in the order of a start. `settings` and `nodes` are there after `make_network`."""

    def __init__(self, rig, options):
        self._rig = rig
        self._options = options
        self.settings = None
        self.nodes = None

    def make_network(self):
        with addresses.choosing():
            plan = addresses.choose(str(self._rig.folder))
            # Of the rig's own: who gave the folder may take it away.
            pci = self._options.real_pci and shutil.copytree(self._options.real_pci, self._rig / "pci", symlinks=True, dirs_exist_ok=True)
            self.settings = nodes.Settings(plan.index, self._options.real_nodes, self._options.gpus, self._options.real_nodes_per_supernode,
                                           components.lease_duration(self._options), str(pci))
            self.nodes = nodes.RealNodes(self._rig, self.settings)
            self.nodes.start_switch()

    @property
    def addresses(self):
        return {components.API_SERVER: self.settings.plan.host, components.COREDNS: self.settings.plan.switch}

    @property
    def ports(self):
        return {components.COREDNS: cluster_dns.READY_PORT}

    def server_addresses(self):
        """What the API server and the kubelets are reached at."""
        plan = self.settings.plan
        return (plan.host, plan.api_service, *(plan.node(number) for number in range(self.settings.count)))

    def boot(self, authority, api_url, pause):
        """Up to the container runtime; needs no API server."""
        names = self.settings.names()
        serving = authority.issue_server("kubelet")
        proxy = authority.issue_client("kube-proxy", _PROXY_USER)
        for name in names:
            user = f"system:node:{name}"
            client = authority.issue_client(f"node-{name}", user, ("system:nodes",))
            self.nodes.write_files(name, node_files.Identity(api_url, authority.certificate, user, *client, *serving, *proxy))
        self._write_dns_files(authority, api_url)
        self.nodes.boot(names)
        self.nodes.route_from_machine()
        archive = self._rig / "config" / "pause.tar"
        images.write_single_program(archive, node_files.PAUSE_IMAGE, pause)
        self.nodes.import_images(names, [archive, *self._options.images])

    def _write_dns_files(self, authority, api_url):
        kubeconfig = self._rig / "kubeconfigs" / f"{components.COREDNS}.kubeconfig"
        certificate, key = authority.issue_client(components.COREDNS, cluster_dns.USER)
        kubeconfigs.with_certificate(kubeconfig, api_url, authority.certificate, cluster_dns.USER, certificate, key)
        cluster_dns.write_configuration(self._rig / "config" / "Corefile", self.settings.plan, kubeconfig)

    def start(self, client):
        """Once the API server answers."""
        cluster_dns.create_objects(client, self.settings.plan)
        client.close()
        self.nodes.start_agents(self.settings.names())

    def environment(self):
        plan = self.settings.plan
        reach = ",".join(part for part in (os.environ.get("NO_PROXY"), "127.0.0.1", "localhost", plan.whole) if part)
        return {
            "ASTERISM_RIG_REAL_NODES": " ".join(self.settings.names()),
            "ASTERISM_RIG_REAL_SELECTOR": f"{node_files.LAYER_LABEL}=real",
            "ASTERISM_RIG_REAL_GPU_PRODUCT": node_files.GPU_PRODUCT,
            "ASTERISM_RIG_REAL_NETWORK": plan.whole,
            "ASTERISM_RIG_REAL_INTERFACE": footprint.interface(self._rig.folder),
            # A packet to the rig takes no way over a proxy.
            "NO_PROXY": reach, "no_proxy": reach,
        }
