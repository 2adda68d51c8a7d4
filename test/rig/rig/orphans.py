"""What is left of runs that were killed: rigs, and folders with files of a run.

Each says in `owner.pid` which process it is for. When that process is gone, nobody will come back for it, so whoever comes next
takes it away: every `up`, every `make_folder`, `down --orphans` and `down --all`. What has no `owner.pid` belongs to a person
and stays until somebody says `down`.
"""

import os
import shutil
import subprocess

from rig import places, processes


def owner_file(folder):
    return folder / "owner.pid"


def is_orphan(folder):
    """A pid that meanwhile belongs to somebody else does not count as the owner."""
    return places.is_own(folder) and owner_file(folder).exists() and processes.running_pid(owner_file(folder)) is None


def make_folder(name):
    """A folder for files of this process. As ASTERISM_RIG_ROOT it also holds rigs, which then go with it."""
    take_down()
    folder = places.run_folder(name)
    folder.mkdir(mode=0o700)
    processes.write_own_pid(owner_file(folder))
    return folder


def take_down():
    """Takes down all that has lost its owner, and says so."""
    for name in places.names():
        if is_orphan(places.directory(name)):
            print(f"taking down the rig {name!r}: the process that it was for is gone")
            _run_down("--name", name)
    for folder in places.run_folders():
        if is_orphan(folder):
            print(f"removing {folder}: the run that it was for is gone")
            _run_down("--all", root=folder)
            shutil.rmtree(folder, ignore_errors=True)


def _run_down(*arguments, root=None):
    # As a command, since a folder of a run is a root of rigs of its own. What cannot be taken down now does not stop the caller.
    environment = {**os.environ, "ASTERISM_RIG_ROOT": str(root or places.root())}
    subprocess.run([places.SOURCE / "down", *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
