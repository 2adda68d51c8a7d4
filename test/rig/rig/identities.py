"""Makes kubeconfigs for users, groups and ServiceAccounts of a running rig."""

import hashlib
import re
from pathlib import Path

from rig import certificates, components, kubeconfigs, state
from rig.api_client import ApiClient, ApiError
from rig.errors import USAGE, RigError


def _default_path(rig, user, groups):
    # Users that differ only in characters no file name should have, or in groups, must not share a file.
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", user)[:60]
    digest = hashlib.sha256("\0".join((user, *groups)).encode()).hexdigest()[:8]
    return rig / "kubeconfigs" / f"{plain}-{digest}.kubeconfig"


def with_certificate(rig_name, user, groups, out=None):
    """Returns the path of a kubeconfig with a client certificate for `user`, a member of `groups`."""
    rig = state.Rig(rig_name)
    with rig.lock(wait_s=60.0):
        found = rig.load_complete()
        path = Path(out).absolute() if out else _default_path(rig, user, groups)
        authority = certificates.Authority(rig / "certificates")
        certificate, key = authority.issue_client("user-" + _default_path(rig, user, groups).stem, user, groups)
        url = components.urls(found)[components.API_SERVER]
        kubeconfigs.with_certificate(path, url, authority.certificate, user, certificate, key)
    return path


def with_token(rig_name, service_account, seconds, out=None):
    """Returns the path of a kubeconfig with a token of `service_account` (NAMESPACE/NAME), which must exist."""
    namespace, separator, account = service_account.partition("/")
    if not (separator and namespace and account):
        raise RigError(f"not NAMESPACE/NAME: {service_account!r}", code=USAGE)
    rig = state.Rig(rig_name)
    found = rig.load_complete()
    url = components.urls(found)[components.API_SERVER]
    folder = rig / "certificates"
    client = ApiClient(url, folder / "ca.crt", folder / "admin.crt", folder / "admin.key")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
    try:
        answer = client.post(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", request)
    except ApiError as error:
        remedy = f"create it: kubectl create namespace {namespace}; kubectl -n {namespace} create serviceaccount {account}"
        raise RigError(f"no token for {service_account}: {error}", remedy if error.status == 404 else None) from error
    finally:
        client.close()
    path = Path(out).absolute() if out else _default_path(rig, f"token-{namespace}-{account}", ())
    kubeconfigs.with_token(path, url, folder / "ca.crt", f"system:serviceaccount:{namespace}:{account}", answer["status"]["token"])
    return path
