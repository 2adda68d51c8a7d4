"""A way to the API server on which all that a client sends arrives late; TLS passes through it unread.

    with SlowProxy(port, rig["ASTERISM_RIG_API_PORT"], delay_s=1.0):
        ...

A call takes longer by the delay, calls at the same time do not wait for each other.
"""

import contextlib
import queue
import socket
import threading
import time

_ADDRESS = "127.0.0.1"
_BYTES = 65536


class SlowProxy:
    def __init__(self, port, server_port, delay_s):
        self._server = _ADDRESS, int(server_port)
        self._delay_s = delay_s
        self._sockets = []
        self._listener = socket.create_server((_ADDRESS, port), backlog=64)

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        for each in [self._listener, *self._sockets]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    @staticmethod
    def _start(body, *arguments):
        threading.Thread(target=body, args=arguments, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):     # closed
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server, timeout=5)
                server.settimeout(None)
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets += [client, server]
                self._pass(client, server, self._delay_s)
                self._pass(server, client, 0)

    def _pass(self, source, target, delay_s):
        waiting = queue.Queue()
        self._start(self._read, source, waiting, delay_s)
        self._start(self._write, target, waiting)

    @staticmethod
    def _read(source, waiting, delay_s):
        data = b"x"
        while data:
            try:
                data = source.recv(_BYTES)
            except OSError:
                data = b""
            waiting.put((time.monotonic() + delay_s, data))

    @staticmethod
    def _write(target, waiting):
        with contextlib.suppress(OSError):
            while True:
                due, data = waiting.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    target.shutdown(socket.SHUT_RDWR)
                    return
                target.sendall(data)
