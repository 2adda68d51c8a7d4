"""Writes container images as tars with an OCI layout: the same content gives the same bytes, whenever and wherever.

    root = Root()
    root.add_file("/usr/local/bin/program", open(path, "rb").read(), 0o755)
    root.add_symlink("/bin", "usr/bin")
    write(archive, "registry.example/program:1", root, Config(entrypoint=["/usr/local/bin/program"], user="65532:65532"))

An image has one layer, which is not compressed: what takes it compresses as it likes. Owners are root, times are 1970.
"""

import hashlib
import io
import json
import os
import platform
import posixpath
import tarfile
from dataclasses import dataclass, field
from pathlib import Path

_EPOCH = "1970-01-01T00:00:00Z"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_CHUNK_BYTES = 1 << 20


@dataclass
class Config:
    entrypoint: list = field(default_factory=list)
    command: list = field(default_factory=list)
    user: str = "65532:65532"
    environment: dict = field(default_factory=dict)
    working_folder: str = "/"
    labels: dict = field(default_factory=dict)


@dataclass(frozen=True)
class _Entry:
    kind: bytes
    mode: int
    content: object = None  # bytes, or the Path of a file
    target: str = ""


class Root:
    """The files of an image. Folders above a file come by themselves."""

    def __init__(self):
        self._entries = {}

    def add_folder(self, path, mode=0o755):
        path = self._normal(path)
        if path and self._entries.get(path, _Entry(tarfile.DIRTYPE, mode)).kind == tarfile.DIRTYPE:
            self._entries[path] = _Entry(tarfile.DIRTYPE, mode)
            self._add_parents(path)

    def add_file(self, path, content, mode=0o644):
        """`content`: bytes, or the path of a file that is read when the image is written."""
        path = self._normal(path)
        self._entries[path] = _Entry(tarfile.REGTYPE, mode, content)
        self._add_parents(path)

    def add_symlink(self, path, target):
        path = self._normal(path)
        self._entries[path] = _Entry(tarfile.SYMTYPE, 0o777, target=target)
        self._add_parents(path)

    def has(self, path):
        return self._normal(path) in self._entries

    def paths(self):
        return sorted(self._entries)

    def _add_parents(self, path):
        parent = posixpath.dirname(path)
        if parent and parent not in self._entries:
            self._entries[parent] = _Entry(tarfile.DIRTYPE, 0o755)
            self._add_parents(parent)

    @staticmethod
    def _normal(path):
        return posixpath.normpath("/" + str(path)).lstrip("/")

    def write_tar(self, handle):
        with tarfile.open(fileobj=handle, mode="w", format=tarfile.PAX_FORMAT) as archive:
            # A folder sorts before what is in it.
            for path in self.paths():
                entry = self._entries[path]
                info = tarfile.TarInfo(path)
                info.type, info.mode, info.linkname = entry.kind, entry.mode, entry.target
                if isinstance(entry.content, bytes):
                    info.size = len(entry.content)
                    archive.addfile(info, io.BytesIO(entry.content))
                elif entry.content is not None:
                    with open(entry.content, "rb") as source:
                        info.size = os.fstat(source.fileno()).st_size
                        archive.addfile(info, source)
                else:
                    archive.addfile(info)

    def write_folder(self, folder):
        """The same as files, for a Dockerfile that copies them."""
        folder = Path(folder)
        for path in self.paths():
            entry, target = self._entries[path], folder / path
            if entry.kind == tarfile.DIRTYPE:
                target.mkdir(parents=True, exist_ok=True)
                target.chmod(entry.mode)
            elif entry.kind == tarfile.SYMTYPE:
                target.symlink_to(entry.target)
            else:
                target.write_bytes(entry.content if isinstance(entry.content, bytes) else Path(entry.content).read_bytes())
                target.chmod(entry.mode)


def architecture():
    return _ARCHITECTURES.get(platform.machine(), platform.machine())


def _json(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _config_blob(config, diff_id):
    settings = {
        "Entrypoint": config.entrypoint or None, "Cmd": config.command or None, "User": config.user, "WorkingDir": config.working_folder,
        "Env": [f"{key}={value}" for key, value in sorted(config.environment.items())] or None, "Labels": config.labels or None,
    }
    return _json({
        "architecture": architecture(), "os": "linux", "created": _EPOCH,
        "config": {key: value for key, value in settings.items() if value is not None},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]}, "history": [{"created": _EPOCH, "created_by": "deploy/images/build"}],
    })


def _digest_of_file(path):
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        while chunk := handle.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def write(archive, name, root, config):
    """Writes the image `name` (REPOSITORY:TAG) to `archive`. Returns the digest of its manifest."""
    archive = Path(archive)
    archive.parent.mkdir(parents=True, exist_ok=True)
    layer = archive.with_name(f".{archive.name}.{os.getpid()}.layer")
    partial = archive.with_name(f".{archive.name}.{os.getpid()}.partial")
    try:
        with open(layer, "wb") as handle:
            root.write_tar(handle)
        layer_digest, layer_size = _digest_of_file(layer), layer.stat().st_size
        config_blob = _config_blob(config, f"sha256:{layer_digest}")
        manifest = _json({
            "schemaVersion": 2, "mediaType": _MANIFEST_TYPE, "config": _descriptor(_CONFIG_TYPE, config_blob),
            "layers": [{"mediaType": _LAYER_TYPE, "digest": f"sha256:{layer_digest}", "size": layer_size}],
        })
        tag = name.rsplit(":", 1)[-1]
        index = _json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [{
            **_descriptor(_MANIFEST_TYPE, manifest), "platform": {"architecture": architecture(), "os": "linux"},
            # containerd takes the first as the name, others the second as the tag.
            "annotations": {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}}]})
        layout = Root()
        layout.add_file("oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        layout.add_file("index.json", index)
        for blob in (config_blob, manifest):
            layout.add_file(f"blobs/sha256/{hashlib.sha256(blob).hexdigest()}", blob)
        layout.add_file(f"blobs/sha256/{layer_digest}", layer)
        with open(partial, "wb") as handle:
            layout.write_tar(handle)
        os.rename(partial, archive)
        return f"sha256:{hashlib.sha256(manifest).hexdigest()}"
    finally:
        layer.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)


def _descriptor(media_type, blob):
    return {"mediaType": media_type, "digest": f"sha256:{hashlib.sha256(blob).hexdigest()}", "size": len(blob)}
