"""Listens on the port that asterism-scheduler calls, and passes connections on to whoever leads.

In a cluster an EndpointSlice does this; on the rig two controllers cannot listen on one port.
"""

import contextlib
import select
import socket
import threading
import time

_CHECK_S = 0.1
_BYTES = 65536


class LeaderProxy:
    def __init__(self, port, controllers):
        self._controllers = controllers
        self._leader = None
        self._stopped = threading.Event()
        self._pairs = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=128)
        self._threads = [threading.Thread(target=body, daemon=True) for body in (self._watch_leader, self._accept)]

    def start(self):
        for thread in self._threads:
            thread.start()
        return self

    def stop(self):
        self._stopped.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._close_connections()
        for thread in self._threads:
            thread.join(timeout=10)

    def _watch_leader(self):
        while not self._stopped.is_set():
            leader = next((controller for controller in self._controllers if controller.leads()), None)
            if leader is not self._leader:
                self._leader = leader
                self._close_connections()
            time.sleep(_CHECK_S)

    def _accept(self):
        while not self._stopped.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        leader = self._leader
        with contextlib.closing(client), contextlib.suppress(OSError):
            if leader is None:
                return
            with contextlib.closing(socket.create_connection(("127.0.0.1", leader.ports["https"]), timeout=5)) as server:
                for end in (client, server):
                    end.settimeout(None)
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                pair = (client, server)
                with self._lock:
                    self._pairs.add(pair)
                try:
                    _splice(client, server)
                finally:
                    with self._lock:
                        self._pairs.discard(pair)

    def _close_connections(self):
        with self._lock:
            pairs = list(self._pairs)
        for end in (end for pair in pairs for end in pair):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _splice(left, right):
    other = {left: right, right: left}
    while True:
        for end in select.select([left, right], [], [])[0]:
            data = end.recv(_BYTES)
            if not data:
                return
            other[end].sendall(data)
