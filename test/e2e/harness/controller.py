"""asterism-controller as a local process: start, pause, kill, and what its metrics port tells."""

import contextlib
import http.client
import json
import re
import signal
import subprocess
import time

from harness import processes
from harness.failure import Failed

_READY_TIMEOUT_S = 30.0
_POLL_S = 0.02
_ADDRESS = "127.0.0.1"


class Controller:
    """One process. The same object can be started again after it ended, as a Deployment would."""

    def __init__(self, program, identity, config, kubeconfig, ports, folders, tls):
        """`config`: text of AsterismConfiguration. `ports`: {"https": ..., "metrics": ...}, written into it. `folders`:
        {"log": ..., "config": ...}; the configuration belongs to this process alone. `tls`: how it is asked."""
        self.identity = identity
        self.ports = ports
        self.tls = tls
        self.log = folders["log"] / f"{identity}.log"
        self._config = folders["config"] / f"{identity}.yaml"
        self._config.write_text(with_ports(config, ports), encoding="utf-8")
        self._command = [program, "--config", self._config, "--kubeconfig", kubeconfig, "--namespace", "asterism-system",
                         "--identity", identity, "--log-format", "text"]
        self._process = None
        self._wanted = False

    def start(self):
        self._process = processes.start(self._command, self.log)
        self._wanted = True
        return self

    @property
    def pid(self):
        return self._process.pid

    def running(self):
        return self._process is not None and self._process.poll() is None

    def kill(self):
        if self.running():
            self._process.kill()
            self._process.wait()
        self._wanted = False

    def fall(self):
        """Why it does not run although nobody ended it; None where all is well."""
        if not self._wanted or self.running():
            return None
        code = self._process.returncode
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
        return f"{self.identity} {how} by itself: {self.log_tail(3)}"

    def terminate(self, timeout_s=10.0):
        """Asks it to end. Returns the seconds that took and the exit code."""
        began = time.monotonic()
        self._wanted = False
        if self.running():
            self._process.terminate()
            try:
                self._process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Failed(f"{self.identity} did not end within {timeout_s:g} s after SIGTERM") from None
        return time.monotonic() - began, self._process.returncode if self._process else 0

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def rewrite_config(self, pattern, replacement):
        text, count = re.subn(pattern, replacement, self._config.read_text(encoding="utf-8"))
        if count != 1:
            raise Failed(f"{pattern!r} stands {count} times in the configuration")
        self._config.write_text(text, encoding="utf-8")

    def ask(self, path, port="metrics", body=None, timeout_s=5.0):
        """(status, text) of an HTTP answer; OSError where nobody answers."""
        connection = http.client.HTTPSConnection(_ADDRESS, self.ports[port], timeout=timeout_s, context=self.tls)
        try:
            connection.request("POST" if body is not None else "GET", path, body, {"Content-Type": "application/json"} if body else {})
            answer = connection.getresponse()
            return answer.status, answer.read().decode("utf-8", errors="replace")
        except http.client.HTTPException as error:
            raise OSError(f"{self.identity}: {error!r}") from error
        finally:
            connection.close()

    def _is_ok(self, path):
        with contextlib.suppress(OSError):
            return self.ask(path)[0] == 200
        return False

    def ready(self):
        return self._is_ok("/readyz")

    def leads(self):
        return self._is_ok("/leaderz")

    def wait_leading(self, timeout_s=_READY_TIMEOUT_S):
        """Returns the seconds it took."""
        return self._wait(self.leads, timeout_s, "lead")

    def wait_ready(self, timeout_s=_READY_TIMEOUT_S):
        return self._wait(self.ready, timeout_s, "become ready")

    def _wait(self, condition, timeout_s, what):
        began = time.monotonic()
        while not condition():
            if self.fall():
                raise Failed(self.fall())
            if time.monotonic() - began > timeout_s:
                raise Failed(f"{self.identity} did not {what} within {timeout_s:g} s: {self._explain()}")
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def _explain(self):
        with contextlib.suppress(OSError):
            return f"/readyz says {self.ask('/readyz')[1].strip()[:300]!r}, /leaderz {self.ask('/leaderz')[1].strip()[:300]!r}"
        return "its metrics port answers nothing"

    def ledger(self):
        status, text = self.ask("/ledgerz", port="https", timeout_s=15.0)
        if status != 200:
            raise OSError(f"/ledgerz answers {status}: {text[:200]}")
        return json.loads(text)

    def metric(self, name, **labels):
        """Sum of the samples of `name` that carry these labels."""
        total = 0.0
        for line in self.ask("/metrics")[1].splitlines():
            match = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if match and match[1] == name and all(f'{key}="{value}"' in (match[2] or "") for key, value in labels.items()):
                total += float(match[3])
        return total

    def log_text(self, offset=0):
        with open(self.log, "rb") as log:
            log.seek(offset)
            return log.read().decode("utf-8", errors="replace")

    def log_size(self):
        return self.log.stat().st_size if self.log.exists() else 0

    def log_tail(self, lines):
        return " | ".join(self.log_text().splitlines()[-lines:]) or "its log is empty"


def with_ports(config, ports):
    """The text with its line `ports` replaced, or added. Rendered by Helm the value is a block of lines. gRPC takes any free
    port, which the log tells."""
    line = f"ports: {{https: {ports['https']}, metrics: {ports['metrics']}, grpc: 0}}\n"
    text, count = re.subn(r"(?m)^ports:.*\n(?:[ \t]+.*\n)*", line, config.rstrip("\n") + "\n")
    return text if count else text + line
