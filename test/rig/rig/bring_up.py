"""Brings a rig up: checks the machine, cleans what an earlier one left, starts everything and waits until it is ready."""

import os
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from rig import (builder, certificates, components, kubeconfigs, nodes, orphans, places, ports, processes, programs, readiness,
                 scheduler_config, state)
from rig.api_client import ApiClient, ApiError
from rig.errors import ALREADY_RUNNING, RigError
from rig.real import machine
from rig.real.cluster import RealLayer

PROFILES = ("control", "scale", "real", "full")
SIMULATING = ("scale", "full")
REAL = ("real", "full")
SCHEDULER_NAME = "asterism"
_ADMIN_GROUP = "system:masters"
_USERS = {
    "admin": ("rig-admin", (_ADMIN_GROUP,)),
    components.CONTROLLER_MANAGER: ("system:kube-controller-manager", ()),
    components.SCHEDULER: ("system:kube-scheduler", ()),
    components.ASTERISM_SCHEDULER: ("system:kube-scheduler", ()),
}
_MIN_DISK_GIB = 1.0
_REAL_NODE_DISK_GIB = 0.5
_REAL_NODE_MEMORY_GIB = 0.25
_MEBI = 2**20


@dataclass(frozen=True)
class Extender:
    address: str           # the rig's own port
    url: str = None        # where it is instead
    timeout: str = None
    authority: Path = None    # who signs the extender's certificate
    certificate: Path = None  # what kube-scheduler shows to it
    key: Path = None


@dataclass
class Options:
    name: str = "default"
    owner: int = None  # pid of the process that takes the rig down; None: a person does
    profile: str = "control"
    node_count: int = 0
    gpus: int = 8
    nodes_per_supernode: int = 4
    extender_url: str = None
    extender_timeout: str = None
    with_extender: bool = True
    scheduler_config: str = None
    node_lifecycle: bool = False
    node_grace_s: int = None  # None: what Kubernetes takes by itself
    real_nodes: int = 0
    real_nodes_per_supernode: int = 2
    real_pci: str = ""  # folder that real nodes show as /sys/bus/pci
    images: list = field(default_factory=list)  # for real nodes
    own_scheduler: bool = True  # asterism-scheduler as a program of the rig
    audit: bool = False
    max_requests_inflight: int = 3000
    max_mutating_requests_inflight: int = 1000
    disabled_admission: list = field(default_factory=list)
    component_arguments: dict = field(default_factory=dict)
    port_base: int = None
    min_memory_gib: float = 3.0
    ready_timeout_s: float = 120.0


def _component_names(options):
    left_out = set()
    if options.profile not in SIMULATING:
        left_out.add(components.KWOK)
    if not options.real_nodes:
        left_out.add(components.COREDNS)
    if not options.own_scheduler:
        left_out.add(components.ASTERISM_SCHEDULER)
    return [name for name in components.ALL if name not in left_out]


def check_machine(options):
    ports.check_loopback()
    if options.real_nodes:
        machine.check(options.real_nodes)
    text = open("/proc/meminfo", encoding="ascii").read()
    available_gib = int(text.split("MemAvailable:")[1].split()[0]) / _MEBI
    needed_gib = options.min_memory_gib + options.real_nodes * _REAL_NODE_MEMORY_GIB
    if available_gib < needed_gib:
        raise RigError(f"not enough memory: {available_gib:.1f} GiB available, a rig needs about {needed_gib:g} GiB",
                       "end other programs or rigs (test/rig/status, test/rig/down --all), or lower --min-memory-gib")
    free_gib = shutil.disk_usage(places.root()).free / 2**30
    needed_gib = _MIN_DISK_GIB + options.real_nodes * _REAL_NODE_DISK_GIB
    if free_gib < needed_gib:
        raise RigError(f"not enough disk in {places.root()}: {free_gib:.1f} GiB free, a rig needs about {needed_gib:g} GiB",
                       "free some space, or set ASTERISM_RIG_ROOT to another folder")


def up(options):
    # First, since what they hold of the machine is needed.
    orphans.take_down()
    check_machine(options)
    needed = {"kube-scheduler" if name == components.ASTERISM_SCHEDULER else name for name in _component_names(options)} | {"kubectl"}
    if options.real_nodes:
        needed |= set(programs.names(programs.REAL_NODE))
    built = builder.ensure([name for name in programs.PROGRAMS if name in needed])
    rig = state.Rig(options.name)
    with rig.lock(create=True):
        _refuse_if_running(rig)
        rig.clear()
        try:
            _Start(rig, options, built).run()
        except BaseException as error:
            # Ctrl-C must not stop the cleanup halfway.
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            print("up did not succeed: removing what it started", file=sys.stderr)
            rig.remove()
            raise error


def _refuse_if_running(rig):
    found = rig.load()
    if not found:
        return
    dead = rig.dead_components(found)
    if found.get("complete") and not dead:
        raise RigError(f"the rig {rig.name!r} is already running ({rig / 'rig.env'})",
                       f"use it, end it with test/rig/down --name {rig.name}, or start another with --name", ALREADY_RUNNING)
    reason = f"{', '.join(dead)} died" if found.get("complete") else "its `up` did not finish"
    print(f"cleaning up an earlier rig {rig.name!r}: {reason}")


class _Start:
    """One start of one rig, step by step."""

    def __init__(self, rig, options, built):
        self.rig = rig
        self.options = options
        self.built = built
        self.real = RealLayer(rig, options) if options.real_nodes else None
        self.began = time.monotonic()

    def run(self):
        if self.options.owner:
            processes.write_pid(self.rig.owner_file(), self.options.owner)
        processes.write_own_pid(self.rig.up_pid_file())
        for part in ("bin", "kubeconfigs", "config", "logs", "run", "etcd"):
            (self.rig / part).mkdir(mode=0o700)
        for name, path in self.built.items():
            (self.rig / "bin" / name).symlink_to(path)
        helm = programs.locate("helm")
        if helm:
            (self.rig / "bin" / "helm").symlink_to(helm)
        self._choose_ports()
        context = components.Context(self.rig.folder, self.ports, self.options)
        if self.real:
            self.real.make_network()
            self.ports = {**self.ports, **self.real.ports}
            self.addresses = self.real.addresses
            self._find_urls()
            context = replace(context, real=self.real.settings, switch_pid=self.real.nodes.switch_pid())
        self.command_lines = components.command_lines(context, _component_names(self.options))
        self._save(complete=False)
        self._start(components.ETCD)
        self._make_certificates()
        self._start(components.API_SERVER)
        self._write_scheduler_configs()
        if self.real:
            self.real.boot(self.authority, self.urls[components.API_SERVER], self.built["pause"])
        self._await(components.ETCD, components.API_SERVER)
        if self.real:
            self.real.start(self.client())
        followers = [name for name in self.command_lines if name not in (components.ETCD, components.API_SERVER)]
        for name in followers:
            self._start(name)
        if self.options.node_count:
            self._create_nodes()
        self._await(*followers)
        self._await_default_service_account()
        self._await_untainted_nodes()
        if self.real:
            self._say(f"{len(self.real.settings.names())} real nodes are ready")
        self.rig.save_environment(self._environment())
        self._save(complete=True)
        self.rig.up_pid_file().unlink()
        self._say("ready")

    def _say(self, text):
        print(f"[{time.monotonic() - self.began:5.1f} s] {text}")

    def _choose_ports(self):
        with ports.choosing(places.root()):
            self.ports = ports.choose(self.rig.name, state.ports_of_other_rigs(self.rig.name), self.options.port_base)
            self.rig.save({"ports": self.ports})
        self.addresses = {}
        self._find_urls()
        self.extender = Extender(f"{ports.ADDRESS}:{self.ports['extender']}", self.options.extender_url, self.options.extender_timeout)
        self.extender_url = None    # not known before the configuration is

    def _find_urls(self):
        self.urls = components.urls(self._found())

    def _found(self):
        return {"ports": self.ports, "addresses": self.addresses}

    def _save(self, complete):
        self.rig.save({
            **self._found(), "real": self.real.settings.as_state() if self.real else None,
            "name": self.rig.name, "profile": self.options.profile, "complete": complete,
            "components": self.command_lines, "node_count": self.options.node_count, "gpus": self.options.gpus,
            "nodes_per_supernode": self.options.nodes_per_supernode, "extender_url": self.extender_url,
        })

    def _make_certificates(self):
        authority = self.authority = certificates.Authority(self.rig / "certificates")
        authority.create(self.real.server_addresses() if self.real else ("10.0.0.1",))
        authority.create_service_account_key()
        authority.issue_server("server")
        for name, (user, groups) in _USERS.items():
            certificate, key = authority.issue_client(name, user, groups)
            kubeconfigs.with_certificate(self._kubeconfig(name), self.urls[components.API_SERVER], authority.certificate, user, certificate, key)
        # Of its own: what the extender's authority signs is nothing to the API server.
        extender = certificates.Authority(self.rig / "certificates" / "extender")
        extender.create()
        certificate, key = extender.issue_client("client", "asterism-scheduler")
        self.extender = replace(self.extender, authority=extender.certificate, certificate=certificate, key=key)

    def _kubeconfig(self, name):
        return self.rig / "kubeconfigs" / f"{name}.kubeconfig"

    def _write_scheduler_configs(self):
        default = scheduler_config.plain(self._kubeconfig(components.SCHEDULER), "default-scheduler")
        kubeconfig = self._kubeconfig(components.ASTERISM_SCHEDULER)
        if self.options.scheduler_config:
            second = scheduler_config.from_file(self.options.scheduler_config, self.built["kubectl"], kubeconfig, self.extender)
        else:
            second = scheduler_config.with_extender(kubeconfig, SCHEDULER_NAME, self.extender)
        if not self.options.with_extender:
            second = scheduler_config.without_extenders(second)
        if self.options.own_scheduler:
            self.extender_url = next((entry["urlPrefix"] for entry in second.get("extenders", [])), None)
        for name, document in ((components.SCHEDULER, default), (components.ASTERISM_SCHEDULER, second)):
            (self.rig / "config" / f"{name}.json").write_text(scheduler_config.json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def _start(self, name):
        start_component(self.rig, name, self.command_lines[name])

    def _await(self, *names):
        for name in names:
            readiness.wait(self.rig, self._found(), name, self.options.ready_timeout_s)
            self._say(f"{name} is ready on {self.urls[name]}")

    def client(self):
        folder = self.rig / "certificates"
        return ApiClient(self.urls[components.API_SERVER], folder / "ca.crt", folder / "admin.crt", folder / "admin.key", timeout_s=30.0)

    def _create_nodes(self):
        client = self.client()
        version = client.get("/version")["gitVersion"]
        client.close()
        plan = nodes.NodePlan(self.options.node_count, self.options.gpus, self.options.nodes_per_supernode, version)
        terminal = sys.stdout.isatty()

        def progress(done):
            if terminal:
                print(f"\rcreating nodes: {done}/{plan.count}\033[K", end="", flush=True)

        began = time.monotonic()
        nodes.create(plan, self.client, progress)
        seconds = time.monotonic() - began
        if terminal:
            print("\r\033[K", end="")
        self._say(f"{plan.count} simulated nodes in {nodes.supernode_count(plan)} supernodes, {plan.count / seconds:.0f} nodes/s")

    def _await_default_service_account(self):
        """Pods are refused until the controller manager has made it."""
        def exists(client):
            try:
                return client.get("/api/v1/namespaces/default/serviceaccounts/default")
            except ApiError as error:
                if error.status != 404:
                    raise
                return None
        self._await_answer(exists, "the default ServiceAccount does not appear")

    def _await_untainted_nodes(self):
        """With the node lifecycle controller a new node is tainted until that controller has looked at it."""
        if self.options.node_lifecycle and (components.KWOK in self.command_lines or self.real):
            self._await_answer(
                self._all_untainted, "nodes stay tainted or not ready")

    def _all_untainted(self, client):
        nodes_there = client.get("/api/v1/nodes")["items"]
        return len(nodes_there) == self.options.node_count + self.options.real_nodes and not any(
            item["spec"].get("taints") for item in nodes_there)

    def _await_answer(self, ask, complaint):
        client = self.client()
        deadline = time.monotonic() + self.options.ready_timeout_s
        while not ask(client):
            if time.monotonic() > deadline:
                raise RigError(f"{complaint} within {self.options.ready_timeout_s:.0f} s; logs of {components.CONTROLLER_MANAGER}:\n"
                               + readiness.log_tail(self.rig.log(components.CONTROLLER_MANAGER)))
            time.sleep(0.05)
        client.close()

    def _environment(self):
        folder = self.rig.folder
        values = {
            "KUBECONFIG": self._kubeconfig("admin"),
            # What kubectl and helm note about the API server goes with the rig, not into the user's ~/.kube/cache.
            "KUBECACHEDIR": folder / "kube-cache",
            "ASTERISM_RIG_NAME": self.rig.name,
            "ASTERISM_RIG_PROFILE": self.options.profile,
            "ASTERISM_RIG_DIR": folder,
            "ASTERISM_RIG_BIN": folder / "bin",
            "ASTERISM_RIG_KUBECTL": folder / "bin" / "kubectl",
            "ASTERISM_RIG_LOGS": folder / "logs",
            "ASTERISM_RIG_API_URL": self.urls[components.API_SERVER],
            "ASTERISM_RIG_API_PORT": self.ports[components.API_SERVER],
            "ASTERISM_RIG_CA": folder / "certificates" / "ca.crt",
            "ASTERISM_RIG_ADMIN_CERT": folder / "certificates" / "admin.crt",
            "ASTERISM_RIG_ADMIN_KEY": folder / "certificates" / "admin.key",
            "ASTERISM_RIG_ETCD_URL": self.urls[components.ETCD],
            "ASTERISM_RIG_CONTROLLER_MANAGER_URL": self.urls[components.CONTROLLER_MANAGER],
            "ASTERISM_RIG_SCHEDULER_URL": self.urls[components.SCHEDULER],
            **({"ASTERISM_RIG_ASTERISM_SCHEDULER_URL": self.urls[components.ASTERISM_SCHEDULER]} if self.options.own_scheduler else {}),
            "ASTERISM_RIG_SCHEDULER_NAME": SCHEDULER_NAME,
            "ASTERISM_RIG_NODES": self.options.node_count,
            "ASTERISM_RIG_GPUS_PER_NODE": self.options.gpus,
            "ASTERISM_RIG_NODES_PER_SUPERNODE": self.options.nodes_per_supernode,
            "ASTERISM_RIG_FREE_PORTS": " ".join(str(port) for role, port in self.ports.items() if role.startswith("free_")),
            "ASTERISM_EXTENDER_PORT": self.ports["extender"],
            "ASTERISM_EXTENDER_URL": self.extender_url or "",
            "ASTERISM_EXTENDER_CA": self.extender.authority,
            "ASTERISM_EXTENDER_CA_KEY": self.extender.authority.with_suffix(".key"),
            "ASTERISM_EXTENDER_CLIENT_CERT": self.extender.certificate,
            "ASTERISM_EXTENDER_CLIENT_KEY": self.extender.key,
        }
        if components.KWOK in self.command_lines:
            values["ASTERISM_RIG_KWOK_URL"] = self.urls[components.KWOK]
        if self.real:
            values.update(self.real.environment())
        if self.options.audit:
            values["ASTERISM_RIG_AUDIT_LOG"] = folder / "logs" / "audit.log"
        if (folder / "bin" / "helm").exists():
            values["ASTERISM_RIG_HELM"] = folder / "bin" / "helm"
        return values


def start_component(rig, name, argv):
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(rig.folder), "TMPDIR": str(rig / "run"),
                   # kwok would read the configuration of the user otherwise.
                   "KWOK_WORKDIR": str(rig / "config" / "kwok"), "NO_PROXY": "127.0.0.1,localhost"}
    for variable in ("GOMAXPROCS", "GOGC", "GOMEMLIMIT", "LANG"):
        if variable in os.environ:
            environment[variable] = os.environ[variable]
    processes.start(argv, environment, rig.folder, rig.log(name), rig.pid_file(name))
