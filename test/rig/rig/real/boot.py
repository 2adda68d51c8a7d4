"""The first process of a node: arranges what the node sees of the machine, then only waits and takes in orphaned processes.

    boot.py CONFIG      in namespaces of its own, made by unshare(1); see nodes.py

The root folder of the node is on the disk of the rig. Programs and libraries of the machine are mounted into it read-only.
"""

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SHARED = 1, 32, 4096, 16384, 1 << 20
_NO_SUID, _NO_DEV, _NO_EXEC = 2, 4, 8
_PROGRAM_FOLDERS = ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32")
_FOLDERS = ("etc", "mnt", "opt", "root", "run", "tmp", "var/lib", "var/log", "var/tmp", "proc", "sys", "dev")
_ETC_COPIED = ("passwd", "group", "nsswitch.conf", "ld.so.cache", "ld.so.conf", "protocols", "services")
_ETC_SHARED = ("alternatives", "ssl")

_libc = ctypes.CDLL(None, use_errno=True)


def _mount(source, target, kind=None, flags=0, data=None):
    arguments = [os.fsencode(part) if part is not None else None for part in (source, target, kind)]
    if _libc.mount(*arguments, ctypes.c_ulong(flags), os.fsencode(data) if data else None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def _bind(source, target, read_only=False):
    _mount(source, target, flags=_BIND | _RECURSIVE)
    if read_only:
        _mount(source, target, flags=_BIND | _REMOUNT | _READ_ONLY)


def _bind_file(source, target, read_only=False):
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch()
    _bind(source, target, read_only)


def _programs(root):
    for name in _PROGRAM_FOLDERS:
        source, target = Path("/") / name, root / name
        if source.is_symlink():
            if not target.is_symlink():
                target.symlink_to(os.readlink(source))
        elif source.is_dir():
            target.mkdir(exist_ok=True)
            _bind(source, target, read_only=True)


def _etc(root):
    for name in _ETC_COPIED:
        if Path("/etc", name).is_file():
            shutil.copyfile(Path("/etc", name), root / "etc" / name)
    for name in _ETC_SHARED:
        if Path("/etc", name).is_dir():
            (root / "etc" / name).mkdir(exist_ok=True)
            _bind(Path("/etc", name), root / "etc" / name, read_only=True)


def _control_groups(root, hierarchies):
    """Fresh mounts, so that the node sees its own group as the top."""
    base = Path("/sys/fs/cgroup")
    if all(Path(entry["path"]) != base for entry in hierarchies):
        _mount("cgroup", root / "sys/fs/cgroup", "tmpfs", _NO_SUID | _NO_DEV | _NO_EXEC, "mode=755")
    for entry in hierarchies:
        target = root / entry["path"].lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        kind = "cgroup2" if entry["version"] == 2 else "cgroup"
        _mount(kind, target, kind, _NO_SUID | _NO_DEV | _NO_EXEC, entry["options"])
    for entry in base.iterdir():
        if entry.is_symlink() and not (root / "sys/fs/cgroup" / entry.name).exists():
            (root / "sys/fs/cgroup" / entry.name).symlink_to(os.readlink(entry))


def _arrange(config):
    root = Path(config["root"])
    _bind(root, root)
    for name in _FOLDERS:
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("tmp", "var/tmp"):
        (root / name).chmod(0o1777)
    _programs(root)
    _etc(root)
    _bind("/dev", root / "dev")
    _mount("shm", root / "dev/shm", "tmpfs", _NO_SUID | _NO_DEV, "mode=1777")
    _mount("proc", root / "proc", "proc", _NO_SUID | _NO_DEV | _NO_EXEC)
    _mount("sysfs", root / "sys", "sysfs", _NO_SUID | _NO_DEV | _NO_EXEC)
    _control_groups(root, config["hierarchies"])
    # As after a start of a machine: nothing of an earlier one is in it.
    _mount("run", root / "run", "tmpfs", _NO_SUID | _NO_DEV, "mode=755")
    if not (root / "var/run").is_symlink():
        (root / "var/run").symlink_to("/run")
    for source, target in config["read_only_folders"]:
        (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        _bind(source, root / target.lstrip("/"), read_only=True)
    for source, target in config["programs"]:
        _bind_file(source, root / target.lstrip("/"), read_only=True)
    # Of the whole machine, and the kubelet would change them: it gets a file of the node instead. Or they tell nodes apart.
    for source, target in config["kernel_files"]:
        if (root / target.lstrip("/")).exists():
            _bind(source, root / target.lstrip("/"))
    return root


def main():
    config = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = os.open(config["folder"], os.O_RDONLY | os.O_DIRECTORY)
    for hierarchy in config["hierarchies"]:
        Path(hierarchy["path"], config["group"], "system", "cgroup.procs").write_text("0", encoding="ascii")
    root = _arrange(config)
    subprocess.run(["hostname", config["name"]], check=True)
    os.chdir(root)
    Path("mnt").mkdir(exist_ok=True)
    subprocess.run(["pivot_root", ".", "mnt"], check=True)
    os.chdir("/")
    subprocess.run(["umount", "--lazy", "/mnt"], check=True)
    # Volumes that a pod mounts with propagation need it.
    _mount("none", "/", flags=_SHARED | _RECURSIVE)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")
    os.close(os.open("booted", os.O_WRONLY | os.O_CREAT, 0o600, dir_fd=folder))
    os.close(folder)
    # The kernel then takes in processes that end, and `sleep` needs the least memory.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    os.execv("/usr/bin/sleep", ["node", "infinity"])


main()
