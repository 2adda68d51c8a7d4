"""Images that the rig itself needs, by the writer of the product's images."""

import sys

from rig import places

sys.path.insert(0, str(places.SOURCE.parents[1] / "deploy" / "images"))

import oci_image  # noqa: E402


def write_single_program(archive, name, program):
    """An image with nothing but one program that needs no library."""
    root = oci_image.Root()
    path = f"/{program.name}"
    root.add_file(path, program, 0o755)
    oci_image.write(archive, name, root, oci_image.Config(entrypoint=[path]))
