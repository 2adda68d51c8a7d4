"""Configurations of the two kube-schedulers: the default one, and the second one with our extender."""

import json
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from rig import programs
from rig.errors import USAGE, RigError

GROUP_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
_CLIENT_LIMITS = {"qps": 5000, "burst": 10000, "contentType": "application/vnd.kubernetes.protobuf"}


def plain(kubeconfig, scheduler_name):
    return {
        "apiVersion": GROUP_VERSION,
        "kind": KIND,
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), **_CLIENT_LIMITS},
        "profiles": [{"schedulerName": scheduler_name}],
    }


def with_extender(kubeconfig, scheduler_name, extender):
    return {
        **plain(kubeconfig, scheduler_name),
        "percentageOfNodesToScore": 100,
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 10,
        "extenders": [_pointed_at({
            "filterVerb": "filter",
            "prioritizeVerb": "prioritize",
            "preemptVerb": "preempt",
            "weight": 100,
            "httpTimeout": "2s",
            "nodeCacheCapable": True,
            "ignorable": False,
            "managedResources": [{"name": "nvidia.com/gpu", "ignoredByScheduler": False}],
        }, extender)],
    }


def from_file(path, kubectl, kubeconfig, extender):
    """The configuration of a chart, changed only in what the rig decides: kubeconfig, no lease, where the extender is.

    `path` holds a KubeSchedulerConfiguration, or a ConfigMap with one inside, as YAML or JSON.
    """
    document = _read_yaml(Path(path), kubectl)
    if document.get("kind") == "ConfigMap":
        inner = [text for text in document.get("data", {}).values() if KIND in text]
        if len(inner) != 1:
            raise RigError(f"{path}: the ConfigMap holds {len(inner)} values with a {KIND}, one is needed", code=USAGE)
        document = _parse_yaml(inner[0], kubectl, path)
    if document.get("kind") != KIND:
        raise RigError(f"{path}: kind is {document.get('kind')!r}, not {KIND}",
                       "give one document, for example `helm template ... --show-only templates/FILE`", USAGE)
    document["leaderElection"] = {"leaderElect": False}
    document.setdefault("clientConnection", {})["kubeconfig"] = str(kubeconfig)
    document["extenders"] = [_pointed_at(entry, extender) for entry in document.get("extenders", [])]
    return document


def without_extenders(document):
    return {key: value for key, value in document.items() if key != "extenders"}


def _pointed_at(entry, extender):
    """At the rig's own port, by TLS where the configuration says so, unless a URL was given."""
    https = extender.url.startswith("https:") if extender.url else bool(entry.get("enableHTTPS"))
    name = urlsplit(entry.get("urlPrefix", "")).hostname
    entry = {key: value for key, value in entry.items() if key not in ("urlPrefix", "enableHTTPS", "tlsConfig")}
    entry["urlPrefix"] = extender.url or f"{'https' if https else 'http'}://{extender.address}/extender"
    entry["enableHTTPS"] = https
    if https:
        entry["tlsConfig"] = {"caFile": str(extender.authority), "certFile": str(extender.certificate), "keyFile": str(extender.key)}
        if name:
            entry["tlsConfig"]["serverName"] = name
    if extender.timeout:
        entry["httpTimeout"] = extender.timeout
    return entry


def _read_yaml(path, kubectl):
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise RigError(f"cannot read the scheduler configuration: {error}", code=USAGE) from None
    return _parse_yaml(text, kubectl, path)


def _parse_yaml(text, kubectl, path):
    # Python's standard library has no YAML; a patch that changes nothing makes kubectl translate, without any server.
    command = [str(kubectl), "patch", "--local", "-f", "-", "--type=merge", "-p", "{}", "-o", "json"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"})
    if done.returncode < 0:
        raise programs.damaged(kubectl)
    if done.returncode != 0:
        raise RigError(f"{path}: not readable as YAML: {done.stderr.strip()}", code=USAGE)
    return json.loads(done.stdout)
