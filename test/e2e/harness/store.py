"""Keeps a copy of all objects of a kind by list and watch, and wakes whoever waits for a change.

  changes = Changes()
  pods = Store(api, "Pod", changes)
  pods.start()
  changes.wait_for(lambda: len(pods.all()) == 8, 30, "8 pods")

A `Store` hands each change to its observers in the order of the server, before it wakes waiters. Its thread survives a
server that goes away: it lists again and tells observers the difference.
"""

import contextlib
import http.client
import json
import socket
import threading
import time

from harness.api import ApiError, path_of
from harness.failure import Failed

# Conditions are looked at again this long after a change at the earliest, so that a burst of events costs one look.
_BATCH_S = 0.02
_LOOK_AGAIN_S = 0.5
_RETRY_S = 0.1
_WATCH_SECONDS = 300


class Changes:
    """Where threads wait for any change of any store."""

    def __init__(self):
        self._condition = threading.Condition()
        self._count = 0

    def notify(self):
        with self._condition:
            self._count += 1
            self._condition.notify_all()

    def wait_for(self, predicate, timeout_s, what):
        """Returns the first true value of `predicate()`. `what` is a text, or a function that describes the state seen last."""
        deadline = time.monotonic() + timeout_s
        while True:
            seen = self._count
            value = predicate()
            if value:
                return value
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failed(f"not within {timeout_s:g} s: {what() if callable(what) else what}")
            with self._condition:
                if self._count == seen:
                    self._condition.wait(min(left, _LOOK_AGAIN_S))
            time.sleep(_BATCH_S)


class Store:
    def __init__(self, api, kind, changes, observers=()):
        self._api = api
        self._kind = kind
        self._changes = changes
        self._observers = list(observers)
        self._lock = threading.Lock()
        self._items = {}
        self._synced = threading.Event()
        self._stopped = threading.Event()
        self._client = None
        self._thread = threading.Thread(target=self._run, name=f"watch {kind}", daemon=True)

    def start(self, timeout_s=30.0):
        self._thread.start()
        if not self._synced.wait(timeout_s):
            raise Failed(f"{self._kind} could not be listed within {timeout_s:g} s")

    def stop(self):
        self._stopped.set()
        client = self._client
        connection = client and client._connection.sock  # pylint: disable=protected-access
        if connection:
            # Wakes the thread that reads.
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._thread.join(timeout=10)

    @contextlib.contextmanager
    def observed_by(self, observer):
        """Inside, `observer(before, after)` sees each change too."""
        self._observers = [*self._observers, observer]
        try:
            yield
        finally:
            self._observers = [each for each in self._observers if each is not observer]

    def all(self):
        with self._lock:
            return list(self._items.values())

    def get(self, name, namespace=None):
        with self._lock:
            return self._items.get((namespace, name))

    def _run(self):
        while not self._stopped.is_set():
            try:
                # Longer than a watch may stay silent.
                self._client = self._api.new_client(timeout_s=_WATCH_SECONDS + 30.0)
                self._follow(self._list())
            except (OSError, ApiError, http.client.HTTPException, ValueError, AttributeError):
                # AttributeError: http.client, where another thread shut the connection down.
                self._stopped.wait(_RETRY_S)
            finally:
                if self._client:
                    self._client.close()

    def _list(self):
        answer = self._client.get(path_of(self._kind))
        with self._lock:
            before = self._items
        after = {_key(item): _slim(item) for item in answer["items"]}
        for key in before.keys() - after.keys():
            self._put(key, None)
        for key, item in after.items():
            old = before.get(key)
            if old is None or old["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._put(key, item)
        self._synced.set()
        self._changes.notify()
        return answer["metadata"]["resourceVersion"]

    def _follow(self, version):
        while not self._stopped.is_set():
            connection = self._client._connection  # pylint: disable=protected-access
            connection.request("GET", path_of(self._kind, watch="true", resourceVersion=version, allowWatchBookmarks="true",
                                              timeoutSeconds=_WATCH_SECONDS), headers={"Accept": "application/json"})
            response = connection.getresponse()
            if response.status != 200:
                raise ApiError(response.status, response.read().decode(errors="replace"))
            while line := response.readline():
                event = json.loads(line)
                if event["type"] == "ERROR":
                    return
                item = event["object"]
                version = item["metadata"]["resourceVersion"]
                if event["type"] == "BOOKMARK":
                    continue
                item.setdefault("kind", self._kind)
                self._put(_key(item), None if event["type"] == "DELETED" else _slim(item))
                self._changes.notify()
            response.close()

    def _put(self, key, after):
        with self._lock:
            before = self._items.pop(key, None)
            if after is not None:
                self._items[key] = after
        for observer in self._observers:
            observer(before, after)


def _key(item):
    return item["metadata"].get("namespace"), item["metadata"]["name"]


def _slim(item):
    item["metadata"].pop("managedFields", None)
    return item
