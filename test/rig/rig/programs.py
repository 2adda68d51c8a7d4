"""Which programs the rig needs, from which pinned module each is built, and where the built ones lie."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from rig import places

KUBERNETES_VERSION = "1.37.2"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
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
    module: str  # folder below modules/
    package: str
    usual_seconds: int  # cold build on 2 cores, in the order below
    ldflags: str = _STRIP


def _kubernetes(name, usual_seconds):
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", usual_seconds, _KUBERNETES_LDFLAGS)


PROGRAMS = {
    program.name: program
    for program in (
        Program("etcd", "etcd", ".", 70),
        _kubernetes("kube-apiserver", 300),
        _kubernetes("kube-scheduler", 50),
        _kubernetes("kube-controller-manager", 62),
        _kubernetes("kubectl", 32),
        Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 80),
        Program("helm", "helm", "helm.sh/helm/v4/cmd/helm", 115),
    )
}


def cache_key():
    """Hash of everything that decides what is built: module files and flags."""
    digest = hashlib.sha256()
    for path in sorted(places.MODULES.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(places.MODULES)}\0".encode())
            digest.update(path.read_bytes())
            digest.update(b"\0")
    digest.update(repr((BUILD_FLAGS, sorted(BUILD_ENVIRONMENT.items()))).encode())
    for program in PROGRAMS.values():
        digest.update(repr((program.name, program.module, program.package, program.ldflags)).encode())
    return digest.hexdigest()[:16]


def cache_folder():
    return places.cache() / "rig" / cache_key() / "bin"


def _runnable(path):
    return path.is_file() and os.access(path, os.X_OK)


def locate(name):
    """Returns the path of a program, or None where it has to be built. KUBEBUILDER_ASSETS comes first."""
    folders = [Path(os.environ["KUBEBUILDER_ASSETS"])] if os.environ.get("KUBEBUILDER_ASSETS") else []
    for folder in folders + [cache_folder()]:
        if _runnable(folder / name):
            return (folder / name).resolve()
    return None
