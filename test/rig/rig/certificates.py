"""Certificates by openssl: one authority for each rig, and what it signs. Valid for days, never for production."""

import subprocess
from pathlib import Path

from rig.errors import RigError

_DAYS = "30"
_SERVER_NAMES = "IP:127.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
# A configuration of our own: the one of the machine may add extensions.
_CONFIGURATION = """\
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign,cRLSign,digitalSignature
subjectKeyIdentifier = hash
[server]
basicConstraints = CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth,clientAuth
subjectAltName = {names}
[client]
basicConstraints = CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = clientAuth
"""


def _openssl(*arguments):
    try:
        done = subprocess.run(["openssl", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except FileNotFoundError:
        raise RigError("openssl is not installed", "as root: apt-get install openssl") from None
    if done.returncode != 0:
        raise RigError(f"openssl {' '.join(arguments)}: {done.stderr.strip()}")


def _escaped(value):
    for character in "\\/+":
        value = value.replace(character, "\\" + character)
    return value


def _subject(user, groups):
    return "".join(f"/O={_escaped(group)}" for group in groups) + f"/CN={_escaped(user)}"


class Authority:
    """The authority of one rig, in `folder`. Files: ca.crt, ca.key, NAME.crt, NAME.key, service-account.key, .pub."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.certificate = self.folder / "ca.crt"
        self._key = self.folder / "ca.key"
        self._configuration = self.folder / "openssl.cnf"

    def create(self, addresses=("10.0.0.1",)):
        """`addresses`: what servers are reached at beside 127.0.0.1."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        names = ",".join([_SERVER_NAMES, *(f"IP:{address}" for address in addresses)])
        self._configuration.write_text(_CONFIGURATION.format(names=names), encoding="ascii")
        self._make_key(self._key)
        _openssl("req", "-x509", "-new", "-config", str(self._configuration), "-extensions", "authority", "-key", str(self._key),
                 "-subj", "/CN=asterism-rig", "-days", _DAYS, "-out", str(self.certificate))

    def create_service_account_key(self):
        self._make_key(self.folder / "service-account.key")
        _openssl("pkey", "-in", str(self.folder / "service-account.key"), "-pubout", "-out",
                 str(self.folder / "service-account.pub"))

    def issue_server(self, name):
        return self._issue(name, "/CN=" + name, "server")

    def issue_client(self, name, user, groups=()):
        """Returns (certificate, key) of a client whom Kubernetes knows as `user`, a member of `groups`."""
        return self._issue(name, _subject(user, groups), "client")

    def _issue(self, name, subject, kind):
        certificate, key = self.folder / f"{name}.crt", self.folder / f"{name}.key"
        request = self.folder / f"{name}.csr"
        self._make_key(key)
        _openssl("req", "-new", "-utf8", "-config", str(self._configuration), "-key", str(key), "-subj", subject, "-out", str(request))
        _openssl("x509", "-req", "-in", str(request), "-CA", str(self.certificate), "-CAkey", str(self._key), "-CAcreateserial",
                 "-days", _DAYS, "-extfile", str(self._configuration), "-extensions", kind, "-out", str(certificate))
        request.unlink()
        return certificate, key

    @staticmethod
    def _make_key(path):
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path))
        path.chmod(0o600)
