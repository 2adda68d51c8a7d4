"""Notes when pods of a namespace are bound, at little cost: metadata only, no JSON is parsed.

The watch selects pods that have a node, so a pod is ADDED to it at the moment of its bind. A fresh API server closes watches
now and then; the watch goes on from the last version it saw.
"""

import http.client
import re
import socket
import threading
import time

from harness.api import ApiError, path_of

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_VERSION = re.compile(rb'"resourceVersion":"(\d+)"')


class BindWatch:
    def __init__(self, api, namespace):
        self._condition = threading.Condition()
        self._times = []
        self._failure = None
        self._closed = False
        self._namespace = namespace
        self._client = api.new_client(timeout_s=600)
        self._version = self._client.get(path_of("Pod", namespace, limit=1))["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._closed:
            try:
                self._follow()
            except (OSError, ApiError, ValueError, AttributeError, http.client.HTTPException) as error:
                if isinstance(error, ApiError) or not isinstance(error, OSError):
                    with self._condition:
                        self._failure = error
                        self._condition.notify_all()
                    return
                self._client.close()
                time.sleep(0.02)

    def _follow(self):
        connection = self._client._connection  # pylint: disable=protected-access
        connection.request("GET", path_of("Pod", self._namespace, watch="true", resourceVersion=self._version,
                                          fieldSelector="spec.nodeName!=", timeoutSeconds=590), headers={"Accept": _METADATA})
        response = connection.getresponse()
        if response.status != 200:
            raise ApiError(response.status, response.read().decode(errors="replace"))
        while line := response.readline():
            if line.startswith(b'{"type":"ERROR"'):
                raise ApiError(410, line.decode(errors="replace"))
            found = _VERSION.findall(line)
            if not found:
                break    # the end of a stream that was cut
            self._version = found[-1].decode()
            if line.startswith(b'{"type":"ADDED"'):
                now = time.monotonic()
                with self._condition:
                    self._times.append(now)
                    self._condition.notify_all()
        raise OSError("the server closed the watch")

    def wait(self, count, timeout_s):
        """Returns (first, last) bind as monotonic seconds, once `count` pods are bound."""
        with self._condition:
            self._condition.wait_for(lambda: len(self._times) >= count or self._failure, timeout_s)
            if len(self._times) < count:
                raise OSError(f"{len(self._times)} of {count} pods are bound; {self._failure or f'not within {timeout_s:g} s'}")
            return self._times[0], self._times[count - 1]

    def close(self):
        self._closed = True
        connection = self._client._connection.sock  # pylint: disable=protected-access
        if connection:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._thread.join(timeout=10)
        self._client.close()
