"""Images for real nodes: what the rig itself needs, what the chart takes from elsewhere, and bases for jobs."""

import sys

from rig import places

sys.path.insert(0, str(places.SOURCE.parents[1] / "deploy" / "images"))

import content  # noqa: E402
import oci_image  # noqa: E402

REPOSITORY = "rig.asterism.dev"
# Images of one program that the rig builds.
PROGRAMS = ("kube-scheduler", "kubectl")
_SHELL = ("bash", "coreutils", "dash", "grep", "hostname", "procps", "sed")
# {image: Debian packages}
JOBS = {
    "job": (*_SHELL, "python3", "libstdc++6"),    # the last for PyTorch
    "job-mpi": (*_SHELL, "python3", "openmpi-bin", "python3-mpi4py"),
}
ALL = (*JOBS, *PROGRAMS)
# Debian makes these links while it installs, so no package has them.
_ALTERNATIVES = {"/usr/bin/mpirun": "mpirun.openmpi", "/usr/bin/mpiexec": "mpiexec.openmpi"}


def write_single_program(archive, name, program):
    """An image with nothing but one program that needs no library."""
    root = oci_image.Root()
    path = f"/usr/local/bin/{program.name}"
    root.add_file(path, program, 0o755)
    oci_image.write(archive, name, root, oci_image.Config(entrypoint=[path]))


def write_job(archive, name):
    """A base for jobs: a shell, Python, and what else the table says. PyTorch is not in it but mounted, see test/rig/pytorch."""
    root = oci_image.Root()
    content.add_packages(root, JOBS[name])
    content.add_base(root)
    for link, target in _ALTERNATIVES.items():
        if root.has(f"/usr/bin/{target}"):
            root.add_symlink(link, target)
    environment = {"PATH": "/opt/pytorch/current/bin:/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp"}
    oci_image.write(archive, f"{REPOSITORY}/{name}:1", root, oci_image.Config(command=["/bin/sh"], environment=environment))
