"""The smallest extender that kube-scheduler (nodeCacheCapable) accepts: every node fits, all are equal. Counts its calls."""

import collections
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ExtenderStub:
    def __init__(self, port):
        self.calls = collections.Counter()
        self._closed = False
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if stub._closed:  # kube-scheduler keeps its connections, which outlive the listening socket
                    self.close_connection = True
                    return
                verb = self.path.rsplit("/", 1)[-1]
                stub.calls[verb] += 1
                names = request["NodeNames"]
                answer = {"NodeNames": names} if verb == "filter" else [{"Host": name, "Score": 0} for name in names]
                body = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self):
        self._closed = True
        self._server.shutdown()
        self._server.server_close()
