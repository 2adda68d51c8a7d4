"""Writes kubeconfig files. They are JSON, which is YAML too; credentials are inside, so the file can be copied."""

import base64
import json
import os
from pathlib import Path


def _encoded(path):
    return base64.b64encode(Path(path).read_bytes()).decode("ascii")


def with_certificate(path, url, authority, user, certificate, key):
    _write(path, url, authority, user, {
        "client-certificate-data": _encoded(certificate), "client-key-data": _encoded(key)})


def with_token(path, url, authority, user, token):
    _write(path, url, authority, user, {"token": token})


def _write(path, url, authority, user, credentials):
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "rig", "cluster": {"server": url, "certificate-authority-data": _encoded(authority)}}],
        "users": [{"name": user, "user": credentials}],
        "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": user}}],
        "current-context": "rig",
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        json.dump(content, handle, indent=1)
        handle.write("\n")
