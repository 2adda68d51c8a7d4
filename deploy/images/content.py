"""What goes into images: programs with the libraries that they load, certificate authorities, whole Debian packages.

All of it is taken from this machine, which has to be the Debian that the programs were built on.
"""

import functools
import os
import re
import subprocess
import tempfile
from pathlib import Path

_USER = "65532"
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_AUTHORITIES = Path("/usr/share/ca-certificates")
_LEFT_OUT = re.compile(r"/usr/share/(doc|man|locale|lintian|bug|info|doc-base|menu)/|/__pycache__(/|$)|/etc/(init\.d|cron\.|default/)|/var/")
# What packages need to be installed and configured, not to run.
_INSTALLERS = {"adduser", "debconf", "debianutils", "dpkg", "init-system-helpers", "media-types", "passwd", "perl-base", "sensible-utils", "ucf"}


class ContentError(Exception):
    """Says what is missing, and what to do."""


def _run(*command):
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    except FileNotFoundError:
        raise ContentError(f"{command[0]} is not on this machine: cmake/install-packages brings what building needs") from None
    return done.returncode, done.stdout, done.stderr


def add_base(root):
    """The least that libraries expect: who the user is, how names are looked up, a place for temporary files."""
    root.add_file("/etc/passwd", f"root:x:0:0:root:/:/usr/sbin/nologin\nnonroot:x:{_USER}:{_USER}:nonroot:/:/usr/sbin/nologin\n".encode())
    root.add_file("/etc/group", f"root:x:0:\nnonroot:x:{_USER}:\n".encode())
    root.add_file("/etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    root.add_folder("/tmp", 0o1777)


def add_authorities(root):
    """The certificate authorities of the package ca-certificates, without those that somebody added to this machine."""
    files = sorted(_AUTHORITIES.rglob("*.crt"))
    if not files:
        raise ContentError("no certificate authorities on this machine: apt-get install ca-certificates")
    root.add_file("/etc/ssl/certs/ca-certificates.crt", b"".join(file.read_bytes().rstrip() + b"\n" for file in files))


def add_program(root, program, target):
    """A program, and its libraries under the names that it asks for."""
    program = Path(program)
    if not program.is_file():
        raise ContentError(f"{program} is not there: build it first, with test/build ci")
    root.add_file(target, _without_debugging(program), 0o755)
    for name in libraries(program):
        add_from_machine(root, name)


def _without_debugging(program):
    """The bytes of a program. Debugging information is most of it; the names of functions stay, for what it says when it crashes."""
    with tempfile.TemporaryDirectory() as folder:
        stripped = Path(folder) / program.name
        code, _, complaint = _run("strip", "--strip-debug", "--enable-deterministic-archives", "-o", stripped, program)
        if code != 0:
            raise ContentError(f"strip {program}: {complaint.strip()}")
        return stripped.read_bytes()


def libraries(program):
    """Paths of the shared libraries that a program loads, with the loader; none for a static one."""
    code, output, complaint = _run("ldd", program)
    if code != 0:
        if "not a dynamic executable" in output + complaint:
            return []
        raise ContentError(f"ldd {program}: {complaint.strip()}")
    missing = re.findall(r"^\s*(\S+) => not found", output, re.MULTILINE)
    if missing:
        raise ContentError(f"{program} needs libraries that this machine lacks: {', '.join(missing)}")
    return sorted(set(re.findall(r"(?:=>\s+|^\s*)(/\S+)", output, re.MULTILINE)))


def add_driver_stubs(root, program):
    """Names that are empty libraries by now, and that libraries of drivers still ask for."""
    libc = next((path for path in libraries(program) if path.endswith("/libc.so.6")), None)
    if libc is None:
        raise ContentError(f"{program} loads no libc.so.6: no driver's library runs beside it")
    for name in ("libdl.so.2", "libpthread.so.0", "librt.so.1"):
        add_from_machine(root, Path(libc).with_name(name))


def _merged(root, path):
    """The path below /usr, where /lib and others are links into it."""
    first, _, rest = str(path).lstrip("/").partition("/")
    if first in _MERGED and os.path.islink(f"/{first}"):
        root.add_symlink(f"/{first}", os.readlink(f"/{first}"))
        return f"/usr/{first}/{rest}"
    return str(path)


def add_from_machine(root, path):
    """One file under the name that it has here; a link becomes what it leads to."""
    source = Path(os.path.realpath(path))
    root.add_file(_merged(root, path), source, 0o755 if os.access(source, os.X_OK) else 0o644)


@functools.cache
def _installed():
    """{package: (packages that it depends on as groups of alternatives)}, and {what a package provides: package}."""
    _, output, _ = _run("dpkg-query", "-W", "-f=${Package}\t${db:Status-Status}\t${Pre-Depends}, ${Depends}\t${Provides}\n")
    depends, provides = {}, {}
    for line in output.splitlines():
        package, status, needs, gives = line.split("\t")
        if status == "installed":
            depends[package] = [[name.split("(")[0].split(":")[0].strip() for name in group.split("|")] for group in needs.split(",") if group.strip()]
            for name in gives.split(","):
                provides.setdefault(name.split("(")[0].strip(), package)
    return depends, provides


def closure(packages):
    """The packages and all that they depend on, without what only installs."""
    depends, provides = _installed()
    missing = [name for name in packages if name not in depends]
    if missing:
        raise ContentError(f"packages are missing on this machine: {', '.join(missing)}; remedy: cmake/install-packages --real")
    found, waiting = set(), list(packages)
    while waiting:
        package = waiting.pop()
        if package in found or package in _INSTALLERS:
            continue
        found.add(package)
        for group in depends[package]:
            chosen = next((name for name in (provides.get(n, n) if n not in depends else n for n in group) if name in depends), None)
            if chosen:
                waiting.append(chosen)
    return sorted(found)


def add_packages(root, packages):
    """The files of Debian packages as they are installed here, without documentation."""
    for package in closure(packages):
        code, output, complaint = _run("dpkg", "-L", package)
        if code != 0:
            raise ContentError(f"dpkg -L {package}: {complaint.strip()}")
        for path in output.splitlines():
            if path.startswith("/") and not _LEFT_OUT.search(path + "/"):
                _add_as_it_is(root, path)


def _add_as_it_is(root, path):
    if os.path.islink(path):
        if path.lstrip("/") not in _MERGED:
            root.add_symlink(_merged(root, path), os.readlink(path))
    elif os.path.isfile(path):
        root.add_file(_merged(root, path), Path(path), os.stat(path).st_mode & 0o755)
