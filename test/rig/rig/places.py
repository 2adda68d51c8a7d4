"""Where things lie: the sources of the rig, the cache of built programs, the directory of each rig, folders of test runs.

  ASTERISM_CACHE     cache folder, default $HOME/.cache/asterism
  ASTERISM_RIG_ROOT  where the directories of running rigs and the folders of test runs are made, default /tmp
"""

import os
import re
import stat
from pathlib import Path

from rig.errors import USAGE, RigError

SOURCE = Path(__file__).resolve().parent.parent
MODULES = SOURCE / "modules"
# Of their own, so that a change to what real nodes run does not build the control plane again.
NODE_MODULES = SOURCE / "real" / "modules"
CONFIG = SOURCE / "config"

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


def cache():
    chosen = os.environ.get("ASTERISM_CACHE")
    return Path(chosen).resolve() if chosen else Path.home() / ".cache" / "asterism"


def root():
    path = Path(os.environ.get("ASTERISM_RIG_ROOT") or "/tmp").resolve()
    if not path.is_dir():
        raise RigError(f"the folder for rigs does not exist: {path}", "create it, or set ASTERISM_RIG_ROOT", USAGE)
    return path


def _prefix():
    return f"asterism-rig-{os.getuid()}-"


def directory(name):
    if not _NAME.fullmatch(name):
        raise RigError(f"not a name for a rig: {name!r}", "use up to 40 of a-z, 0-9 and '-'", USAGE)
    return root() / (_prefix() + name)


def names():
    """Names of all rigs of this user that have a directory, sorted."""
    prefix = _prefix()
    found = [entry.name[len(prefix):] for entry in root().iterdir() if entry.name.startswith(prefix)]
    return sorted(name for name in found if _NAME.fullmatch(name))


def _run_prefix():
    return f"asterism-run-{os.getuid()}-"


def run_folder(name):
    """For the files of a test run, see orphans.py."""
    return root() / (_run_prefix() + name)


def run_folders():
    return sorted(entry for entry in root().iterdir() if entry.name.startswith(_run_prefix()))


def is_own(path):
    """Tells whether `path` is a real folder of this user: /tmp is shared, and a symbolic link there may lead anywhere."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
