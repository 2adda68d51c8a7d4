"""Which programs the rig needs, from which pinned module each is built, and where the built ones lie.

They come in two layers, each with a cache folder of its own: the control plane with what simulates nodes, which every rig
needs, and what a real node runs, which only the profiles `real` and `full` need.

Beside each program of the cache stands its size. A disk that ran full or a machine that went down can leave a file that is cut
off: such a program counts as missing, so that it is built again.
"""

import contextlib
import hashlib
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from rig import places
from rig.errors import RigError

KUBERNETES_VERSION = "1.37.2"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
_VERSION_TIMEOUT_S = 30.0
_VERSION_PACKAGE = "k8s.io/component-base/version"

# The same flags for every program: other flags would compile all shared packages once more.
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
_STRIP = "-s -w"
# Without these the Kubernetes programs call themselves v0.0.0 and version checks fail.
_KUBERNETES_LDFLAGS = (
    f"{_STRIP} -X {_VERSION_PACKAGE}.gitVersion=v{KUBERNETES_VERSION}"
    f" -X {_VERSION_PACKAGE}.gitMajor={_MAJOR} -X {_VERSION_PACKAGE}.gitMinor={_MINOR}"
)


@dataclass(frozen=True)
class Program:
    name: str
    module: str  # folder below the modules of its layer
    package: str
    usual_seconds: int  # cold build on 2 cores, in the order below
    ldflags: str = _STRIP
    tells_version: tuple = ("--version",)  # arguments
    modules: Path = places.MODULES  # of its layer

    @property
    def folder(self):
        """Where `go build` runs."""
        return self.modules / self.module


def _kubernetes(name, usual_seconds, **more):
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", usual_seconds, _KUBERNETES_LDFLAGS, **more)


def _containerd(name, usual_seconds, **more):
    return Program(name, "containerd", f"github.com/containerd/containerd/v2/cmd/{name}", usual_seconds, modules=places.NODE_MODULES, **more)


CONTROL_PLANE = (
    Program("etcd", "etcd", ".", 70),
    _kubernetes("kube-apiserver", 300),
    _kubernetes("kube-scheduler", 50),
    _kubernetes("kube-controller-manager", 62),
    _kubernetes("kubectl", 32, tells_version=("version", "--client")),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 80),
    Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", 115, tells_version=("version",)),
)
REAL_NODE = (
    _kubernetes("kubelet", 70, modules=places.NODE_MODULES),
    _kubernetes("kube-proxy", 20, modules=places.NODE_MODULES),
    _containerd("containerd", 70),
    _containerd("containerd-shim-runc-v2", 10, tells_version=("-v",)),
    _containerd("ctr", 15),
    Program("coredns", "coredns", ".", 120, tells_version=("-version",), modules=places.NODE_MODULES),
    Program("pause", "pause", ".", 10, tells_version=("-v",), modules=places.NODE_MODULES),
)
PROGRAMS = {program.name: program for program in (*CONTROL_PLANE, *REAL_NODE)}


def names(layer):
    return [program.name for program in layer]


def cache_key(layer=CONTROL_PLANE):
    """Hash of everything that decides what is built for a layer: module files and flags."""
    modules = layer[0].modules
    digest = hashlib.sha256()
    for path in sorted(modules.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(modules)}\0".encode())
            digest.update(path.read_bytes())
            digest.update(b"\0")
    digest.update(repr((BUILD_FLAGS, sorted(BUILD_ENVIRONMENT.items()))).encode())
    for program in layer:
        digest.update(repr((program.name, program.module, program.package, program.ldflags)).encode())
    return digest.hexdigest()[:16]


def cache_folder(layer=CONTROL_PLANE):
    return places.cache() / "rig" / cache_key(layer) / "bin"


def _layer_of(name):
    return REAL_NODE if PROGRAMS[name] in REAL_NODE else CONTROL_PLANE


def folder_of(name):
    """Where the program lies once it is built."""
    return cache_folder(_layer_of(name))


def _runnable(path):
    return path.is_file() and os.access(path, os.X_OK)


def _size_file(path):
    return path.with_name(f".{path.name}.size")


def record_size(path, size):
    """Tells `locate` how large the program is that lies at `path`, or that is about to be put there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.size")
    temporary.write_text(f"{size}\n", encoding="ascii")
    os.rename(temporary, _size_file(path))


def recorded_size(path):
    """None where nobody wrote it down."""
    try:
        return int(_size_file(path).read_text(encoding="ascii"))
    except (FileNotFoundError, ValueError):
        return None


def _starts(path):
    """Whether it can tell its version. A program that is cut off cannot even be loaded."""
    try:
        return subprocess.run([path, *PROGRAMS[path.name].tells_version], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=_VERSION_TIMEOUT_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _whole(path):
    size = path.stat().st_size
    recorded = recorded_size(path)
    if recorded is not None:
        return size == recorded
    if not _starts(path):
        return False
    with contextlib.suppress(OSError):  # a cache that may only be read
        record_size(path, size)
    return True


def locate(name):
    """Returns the path of a program, or None where it has to be built. KUBEBUILDER_ASSETS comes first."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and _runnable(Path(assets) / name):
        return (Path(assets) / name).resolve()
    built = folder_of(name) / name
    return built.resolve() if _runnable(built) and _whole(built) else None


def damaged(path):
    """The error for a program that the system cannot load. `path` may be a rig's link to it."""
    path = Path(path).resolve()
    return RigError(f"{path.name} is damaged: the system cannot run {path}", f"rm '{path}', then start again: it is built anew")
