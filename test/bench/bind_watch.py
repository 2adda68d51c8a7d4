"""Notes when pods of a namespace are bound, at little cost: metadata only, no JSON is parsed.

The watch selects pods that have a node, so a pod is ADDED to it at the moment of its bind.
"""

import http.client
import socket
import threading
import time

from harness.api import path_of

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class BindWatch:
    def __init__(self, api, namespace):
        self._condition = threading.Condition()
        self._times = []
        self._broken = None
        self._client = api.new_client(timeout_s=600)
        version = self._client.get(path_of("Pod", namespace, limit=1))["metadata"]["resourceVersion"]
        self._connection = self._client._connection  # pylint: disable=protected-access
        self._connection.request("GET", path_of("Pod", namespace, watch="true", resourceVersion=version, fieldSelector="spec.nodeName!="),
                                 headers={"Accept": _METADATA})
        self._response = self._connection.getresponse()
        if self._response.status != 200:
            raise OSError(f"watch of pods: HTTP {self._response.status}")
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        try:
            while line := self._response.readline():
                if line.startswith(b'{"type":"ADDED"'):
                    now = time.monotonic()
                    with self._condition:
                        self._times.append(now)
                        self._condition.notify_all()
        except (OSError, ValueError, AttributeError, http.client.HTTPException) as error:
            self._broken = error
        with self._condition:
            self._broken = self._broken or OSError("the server closed the watch")
            self._condition.notify_all()

    def wait(self, count, timeout_s):
        """Returns (first, last) bind as monotonic seconds, once `count` pods are bound."""
        with self._condition:
            self._condition.wait_for(lambda: len(self._times) >= count or self._broken, timeout_s)
            if len(self._times) < count:
                why = f"the watch broke: {self._broken}" if self._broken else f"not within {timeout_s:g} s"
                raise OSError(f"{len(self._times)} of {count} pods are bound; {why}")
            return self._times[0], self._times[count - 1]

    def close(self):
        sock = self._connection.sock
        if sock:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._thread.join(timeout=10)
        self._client.close()
