"""Finds a Go that is new enough, or gets one: through an older Go, or through apt as root."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from rig.errors import RigError

NEEDED = (1, 26)
TOOLCHAIN = "1.26.8"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_REMEDY = (
    f"install Go {NEEDED[0]}.{NEEDED[1]} or newer and put it into PATH; any older Go is enough to fetch that one:"
    " as root `apt-get install golang-go`, then start this command again"
)
# What go and apt print when the module proxy or the package mirror cannot be reached.
_NETWORK = re.compile(
    r"dial tcp|no such host|connection (refused|reset|timed out|failed)|i/o timeout|network is unreachable"
    r"|proxyconnect|TLS handshake|temporary failure|server misbehaving|502 Bad Gateway|503 Service"
    r"|could not (resolve|connect)|unable to connect",
    re.IGNORECASE,
)


def is_network_failure(output):
    return bool(_NETWORK.search(output))


def network_error(output):
    return RigError(
        "the Go module proxy cannot be reached:\n" + output.strip()[-1500:],
        "check the network; behind a proxy set HTTPS_PROXY, with a mirror of your own set GOPROXY (see `go env GOPROXY`)."
        " What is already built stays: the next run continues",
    )


def _version(go):
    """Version of a go program as (major, minor), or None. GOTOOLCHAIN=local: its own, not one it would switch to."""
    try:
        environment = {**os.environ, "GOTOOLCHAIN": "local"}
        output = subprocess.run([go, "version"], capture_output=True, text=True, env=environment, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\bgo(\d+)\.(\d+)", output)
    return (int(match[1]), int(match[2])) if match else None


def _candidates():
    found = [shutil.which("go"), "/usr/local/go/bin/go", "/usr/lib/go/bin/go", "/usr/bin/go"]
    return [path for path in dict.fromkeys(found) if path and os.access(path, os.X_OK)]


def _toolchain_version():
    architecture = _ARCHITECTURES.get(platform.machine())
    if architecture is None:
        raise RigError(f"no Go toolchain is known for this machine: {platform.machine()}", _REMEDY)
    return f"v0.0.1-go{TOOLCHAIN}.linux-{architecture}"


def _make_executable(folder):
    # The module zip carries no file modes.
    for program in [*folder.glob("bin/*"), *folder.glob("pkg/tool/*/*")]:
        if not os.access(program, os.X_OK):
            program.parent.chmod(0o755)
            program.chmod(0o755)


def _download(go):
    """Fetches the pinned toolchain as a module: works with any Go since 1.16, which cannot switch by itself."""
    module = f"golang.org/toolchain@{_toolchain_version()}"
    print(f"fetching {module} (about 70 MB)", flush=True)
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off"}
        done = subprocess.run(
            [go, "mod", "download", "-json", module], cwd=empty, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        output = done.stdout + done.stderr
        if is_network_failure(output):
            raise network_error(output)
        raise RigError(f"cannot fetch Go {TOOLCHAIN}:\n{output.strip()[-1500:]}", _REMEDY)
    match = re.search(r'"Dir":\s*"([^"]+)"', done.stdout)
    if not match:
        raise RigError(f"go mod download named no folder for {module}", _REMEDY)
    folder = Path(match[1])
    _make_executable(folder)
    return str(folder / "bin" / "go")


def install_by_apt():
    print("no Go on this machine: installing Debian's golang-go to fetch the right one", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends", "golang-go"]
    output = ""
    for command in (install, ["apt-get", "update"], install):
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode == 0 and command is install:
            return
        # All of it: after an `update` that reached nobody, `install` only says that it knows no such package.
        output += done.stdout + done.stderr
    if is_network_failure(output):
        raise RigError(
            "no Go on this machine, and the package mirror cannot be reached:\n" + output.strip()[-800:],
            "check the network, behind a proxy set http_proxy; or install Go by other means and put it into PATH")
    raise RigError(f"no Go, and apt-get could not install it:\n{output.strip()[-800:]}", _REMEDY)


def find():
    """Returns the path of a go of at least NEEDED."""
    for go in _candidates():
        version = _version(go)
        if version and version >= NEEDED:
            return go
    if not _candidates() and os.getuid() == 0 and shutil.which("apt-get"):
        install_by_apt()
    for go in _candidates():
        if _version(go):
            return _download(go)
    raise RigError(f"no Go on this machine, {NEEDED[0]}.{NEEDED[1]} is needed", _REMEDY)


def environment_value(go, name):
    return subprocess.run([go, "env", name], capture_output=True, text=True, check=True).stdout.strip()
