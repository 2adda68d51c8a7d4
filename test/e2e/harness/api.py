"""Requests to the rig's API server as its admin: JSON, one kept-alive connection per thread."""

import threading
import urllib.parse

from harness import places  # noqa: F401  (puts the rig on the path)

from rig.api_client import ApiClient, ApiError

# kind: (prefix of the path, plural, namespaced)
_KINDS = {
    "Pod": ("/api/v1", "pods", True),
    "Service": ("/api/v1", "services", True),
    "ConfigMap": ("/api/v1", "configmaps", True),
    "Secret": ("/api/v1", "secrets", True),
    "ResourceQuota": ("/api/v1", "resourcequotas", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "Node": ("/api/v1", "nodes", False),
    "Namespace": ("/api/v1", "namespaces", False),
    "EndpointSlice": ("/apis/discovery.k8s.io/v1", "endpointslices", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "Event": ("/apis/events.k8s.io/v1", "events", True),
    "PriorityClass": ("/apis/scheduling.k8s.io/v1", "priorityclasses", False),
    "TrainingJob": ("/apis/asterism.dev/v1alpha1", "trainingjobs", True),
    "Queue": ("/apis/asterism.dev/v1alpha1", "queues", False),
}
_API_VERSIONS = {kind: prefix.removeprefix("/apis/").removeprefix("/api/") for kind, (prefix, _, _) in _KINDS.items()}


def path_of(kind, namespace=None, name=None, subresource=None, **query):
    prefix, plural, namespaced = _KINDS[kind]
    parts = [prefix]
    if namespaced and namespace:
        parts.append(f"namespaces/{namespace}")
    parts.append(plural)
    parts += [part for part in (name, subresource) if part]
    return "/".join(parts) + (f"?{urllib.parse.urlencode(query)}" if query else "")


class Api:
    def __init__(self, variables):
        self._variables = variables
        self._own = threading.local()

    def new_client(self, timeout_s=30.0):
        found = self._variables
        return ApiClient(found["ASTERISM_RIG_API_URL"], found["ASTERISM_RIG_CA"], found["ASTERISM_RIG_ADMIN_CERT"],
                         found["ASTERISM_RIG_ADMIN_KEY"], timeout_s=timeout_s)

    @property
    def _client(self):
        if not hasattr(self._own, "client"):
            self._own.client = self.new_client()
        return self._own.client

    def _ask(self, verb, *arguments):
        """Once more where a kept connection was closed by a server that was restarted meanwhile."""
        try:
            return getattr(self._client, verb)(*arguments)
        except OSError:
            return getattr(self._client, verb)(*arguments)

    def get(self, kind, name, namespace=None):
        """The object, or None where it does not exist."""
        try:
            return self._ask("get", path_of(kind, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def list(self, kind, namespace=None, **query):
        return self._ask("get", path_of(kind, namespace, **query))["items"]

    def create(self, item):
        kind, meta = item["kind"], item["metadata"]
        body = {"apiVersion": _API_VERSIONS[kind], **item}
        try:
            return self._client.post(path_of(kind, meta.get("namespace")), body)
        except OSError:
            return self._create_again(kind, meta, body)

    def _create_again(self, kind, meta, body):
        try:
            return self._client.post(path_of(kind, meta.get("namespace")), body)
        except ApiError as error:
            if error.status != 409:
                raise
            return self.get(kind, meta["name"], meta.get("namespace"))    # the first attempt had reached the server

    def patch(self, kind, name, body, namespace=None, subresource=None):
        """JSON merge patch."""
        return self._ask("patch", path_of(kind, namespace, name, subresource), body)

    def delete(self, kind, name, namespace=None, **options):
        """False where it does not exist. `options` are those of DeleteOptions."""
        try:
            self._ask("delete", path_of(kind, namespace, name), {"kind": "DeleteOptions", "apiVersion": "v1", **options})
            return True
        except ApiError as error:
            if error.status == 404:
                return False
            raise

    def delete_all(self, kind, namespace, **options):
        self._ask("delete", path_of(kind, namespace), {"kind": "DeleteOptions", "apiVersion": "v1", **options})

    def bind(self, pod, node, namespace):
        """As a scheduler does."""
        self._client.post(path_of("Pod", namespace, pod, "binding"),
                          {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, "namespace": namespace},
                           "target": {"apiVersion": "v1", "kind": "Node", "name": node}})

    def evict(self, pod, namespace):
        self._client.post(path_of("Pod", namespace, pod, "eviction"),
                          {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}})
