"""Builds the programs that are missing, one by one, into the cache.

A program appears under its name only when it is complete (built beside, then renamed), so an interrupted build
goes on with the next program that is missing. One that was cut off later is built again. A lock makes a second build wait instead of doing the work twice.
"""

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rig import go_tool, programs
from rig.errors import RigError

_NEEDED_GIB_EACH = 0.85
# A part of a build needs less: space per program that is still missing, and a floor for its modules.
_FLOOR_GIB = 2.0
# Their schemas and vectors are what the product's own Kubernetes client is measured by.
_MODULES_OF_TESTS = ("k8s.io/api", "k8s.io/apimachinery")
_PIPE_TICK_S = 10.0
_TERMINAL_TICK_S = 1.0


def ensure(names, quiet_when_done=True):
    """Returns {name: path} of the programs, after building what is missing."""
    missing = [name for name in names if programs.locate(name) is None]
    for folder in dict.fromkeys(programs.folder_of(name) for name in missing):
        _build_locked(folder, [name for name in missing if programs.folder_of(name) == folder])
    if not missing and not quiet_when_done:
        print(f"all {len(names)} programs are there")
    return {name: programs.locate(name) for name in names}


def fetch_modules():
    """Returns the folder of Go's module cache, which then has the modules that tests read files of."""
    go = go_tool.find()
    done = subprocess.run(
        [go, "mod", "download", *_MODULES_OF_TESTS], cwd=programs.places.MODULES / "kubernetes",
        env={**os.environ, **programs.BUILD_ENVIRONMENT}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        output = done.stdout + done.stderr
        if go_tool.is_network_failure(output):
            raise go_tool.network_error(output)
        raise RigError(f"cannot fetch {', '.join(_MODULES_OF_TESTS)}:\n{output.strip()[-1500:]}",
                       f"try it by hand: go mod download, in {programs.places.MODULES / 'kubernetes'}")
    return go_tool.environment_value(go, "GOMODCACHE")


def _build_locked(folder, names):
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder.parent / "lock"):
        # Whoever held the lock may have built them meanwhile.
        missing = [name for name in names if programs.locate(name) is None]
        if not missing:
            return
        for leftover in folder.glob(".*.partial"):
            leftover.unlink()
        for leftover in folder.glob(".*.work"):
            shutil.rmtree(leftover, ignore_errors=True)
        go = go_tool.find()
        _check_disk(go, folder, len(missing))
        for name in missing:
            if (folder / name).exists():
                print(f"{name} in the cache is damaged ({(folder / name).stat().st_size:,} bytes): it is built again")
        print(f"building {', '.join(missing)} into {folder}")
        for number, name in enumerate(missing, 1):
            _build(go, folder, programs.PROGRAMS[name], f"[{number}/{len(missing)}]")


@contextlib.contextmanager
def _lock(path):
    with open(path, "a", encoding="ascii") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is running: waiting for it (Ctrl-C stops only the waiting)")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _check_disk(go, folder, count):
    need_gib = max(_FLOOR_GIB, _NEEDED_GIB_EACH * count)
    for what in (folder, go_tool.environment_value(go, "GOCACHE"), go_tool.environment_value(go, "GOMODCACHE")):
        existing = Path(what)
        while not existing.exists():
            existing = existing.parent
        free_gib = shutil.disk_usage(existing).free / 2**30
        if free_gib < need_gib:
            raise RigError(
                f"not enough disk below {what}: {free_gib:.1f} GiB free, the build needs about {need_gib:.0f} GiB",
                "free some space, or move the caches: ASTERISM_CACHE (programs), GOCACHE (objects), GOMODCACHE (sources)")


def _build(go, folder, program, label):
    partial = folder / f".{program.name}.partial"
    command = [go, "build", *programs.BUILD_FLAGS, "-ldflags", program.ldflags, "-o", str(partial), program.package]
    # `go build` removes its temporary folder only when it comes to its end, whatever signal it gets.
    work = folder / f".{program.name}.work"
    work.mkdir(exist_ok=True)
    environment = {**os.environ, **programs.BUILD_ENVIRONMENT, "GOTMPDIR": str(work)}
    started = time.monotonic()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=program.folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            _watch(process, program, label, started)
        except BaseException:
            # Ends the compilers too: they are in the same process group.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            partial.unlink(missing_ok=True)
            shutil.rmtree(work, ignore_errors=True)
            print(f"\nstopped while building {program.name}; nothing that was built is lost: the next run continues there")
            raise
        output.seek(0)
        text = output.read()
    shutil.rmtree(work, ignore_errors=True)
    if process.returncode != 0:
        partial.unlink(missing_ok=True)
        raise failure(program, text)
    # First the size: stopped between the two, a program that was there before counts as damaged at worst.
    programs.record_size(folder / program.name, partial.stat().st_size)
    os.rename(partial, folder / program.name)
    print(f"{label} {program.name}: done in {time.monotonic() - started:.0f} s")


def _watch(process, program, label, started):
    terminal = sys.stdout.isatty()
    tick_s = _TERMINAL_TICK_S if terminal else _PIPE_TICK_S
    while True:
        elapsed = time.monotonic() - started
        line = f"{label} {program.name}: {elapsed:.0f} s, usually {program.usual_seconds} s on 2 cores when cold"
        print(f"\r{line}\033[K" if terminal else line, end="" if terminal else "\n", flush=True)
        try:
            process.wait(timeout=tick_s)
            break
        except subprocess.TimeoutExpired:
            continue
    if terminal:
        print("\r\033[K", end="")


def failure(program, output):
    """What `go build` means, and what to do about it."""
    if go_tool.is_network_failure(output):
        return go_tool.network_error(output)
    if "no space left on device" in output:
        return RigError(f"the disk is full: {program.name} could not be built", "free about 6 GiB and start again")
    if re.search(r"signal: killed|out of memory|cannot allocate memory", output):
        return RigError(f"the machine ran out of memory: {program.name} could not be built",
                        "end other programs (a build needs about 4 GiB), then start again: what is built stays")
    return RigError(
        f"{program.name} could not be built:\n{output.strip()[-3000:]}",
        f"try it by hand in {program.folder}; `go clean -cache` helps after a crash of the machine")
