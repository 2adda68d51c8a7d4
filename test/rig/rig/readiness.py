"""Waits until a component answers that it is ready, and explains why when it does not."""

import ssl
import time
import urllib.error
import urllib.request
from dataclasses import dataclass

from rig import components, processes, programs
from rig.errors import RigError

_POLL_S = 0.05
_ASK_TIMEOUT_S = 5.0
_LOG_LINES = 15


@dataclass(frozen=True)
class Verdict:
    ready: bool
    text: str


def ask(url, authority):
    context = ssl.create_default_context(cafile=str(authority)) if url.startswith("https:") else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(url, timeout=_ASK_TIMEOUT_S) as answer:
            return Verdict(True, answer.read(2000).decode(errors="replace"))
    except urllib.error.HTTPError as error:
        return Verdict(False, error.read(2000).decode(errors="replace"))
    except OSError as error:
        return Verdict(False, str(error))


def url_of(found, name):
    return components.urls(found)[name] + components.READY_PATH[name]


def log_tail(path):
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    return "\n".join(lines[-_LOG_LINES:])


def wait(rig, found, name, timeout_s):
    """`found`: state of the rig, as far as `components.urls` needs it."""
    deadline = time.monotonic() + timeout_s
    authority = rig / "certificates" / "ca.crt"
    while True:
        verdict = ask(url_of(found, name), authority)
        # Somebody else's program on the port must not pass for ours.
        if processes.running_pid(rig.pid_file(name)) is None:
            tail = log_tail(rig.log(name))
            # A Go program that has come to its start reports the signal itself.
            if processes.ended_as_damaged(rig.pid_file(name)) or "signal SIGBUS" in tail:
                raise programs.damaged(rig.load()["components"][name][0])
            remedy = None
            if "address already in use" in tail:
                remedy = "something took the port meanwhile: start again, or give --port-base"
            raise RigError(f"{name} ended instead of becoming ready; the end of its log:\n{tail}", remedy)
        if verdict.ready:
            return
        if time.monotonic() > deadline:
            raise RigError(f"{name} is not ready after {timeout_s:.0f} s: {verdict.text.strip()}\nthe end of its log:\n{log_tail(rig.log(name))}",
                           "is the machine overloaded? --ready-timeout gives it more seconds")
        time.sleep(_POLL_S)
