"""Who shows what to whom: the controller to its callers, kube-scheduler to the controller, and nobody else."""

import base64
import http.client
import shutil
import socket
import ssl
import subprocess
from pathlib import Path

from harness import chart, tls
from harness.failure import require, require_equal
from harness.scenario import scenario

_AUTHORITY, _SERVER, _SCHEDULER = "asterism-authority", "asterism-extender-tls", "asterism-scheduler-tls"
_KEYS = ("ca.crt", "tls.crt", "tls.key")
# The leader looks at its Secrets every 10 s.
_HEALED_S = 60.0


def _secret(cluster, name):
    found = cluster.api.get("Secret", name, chart.NAMESPACE) or {}
    return {key: base64.b64decode(value).decode() for key, value in (found.get("data") or {}).items()}


def _wait_for(cluster, what, condition):
    cluster.wait_for(condition, what, _HEALED_S)


@scenario()
def strangers_get_nothing_from_the_extender(cluster):
    rig, port = cluster.rig, cluster.controller.ports["https"]
    nobody = ssl.create_default_context(cafile=rig["ASTERISM_EXTENDER_CA"])
    nobody.check_hostname = False
    stranger = ssl.create_default_context(cafile=rig["ASTERISM_EXTENDER_CA"])
    stranger.check_hostname = False
    stranger.load_cert_chain(rig["ASTERISM_RIG_ADMIN_CERT"], rig["ASTERISM_RIG_ADMIN_KEY"])    # of the cluster's authority
    for who, context in (("without a certificate", nobody), ("with the certificate of a cluster admin", stranger)):
        try:
            cluster.controller.tls, own = context, cluster.controller.tls
            code, text = cluster.controller.ask("/ledgerz", port="https")
            require(False, f"a caller {who} is answered {code} {text[:100]}")
        except OSError:
            pass
        finally:
            cluster.controller.tls = own
    plain = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        plain.request("GET", "/ledgerz")
        require(False, f"plain HTTP is answered {plain.getresponse().status}")
    except (http.client.HTTPException, OSError):
        pass
    finally:
        plain.close()
    require_equal(cluster.controller.ask("/ledgerz")[0], 404, "the ledger on the port that asks nobody for a certificate")
    require(cluster.controller.metric("asterism_http_handshake_failures_total") >= 2, "failed handshakes are not counted")


@scenario()
def lost_and_foreign_secrets_are_good_again_and_no_job_waits(cluster):
    before = _secret(cluster, _SERVER)
    cluster.api.delete("Secret", _SERVER, chart.NAMESPACE)
    cluster.api.delete("Secret", _AUTHORITY, chart.NAMESPACE)
    cluster.run_job("while-lost", 32)
    _wait_for(cluster, "the Secrets are back", lambda: all(_secret(cluster, _SERVER).get(key) for key in _KEYS) and _secret(cluster, _AUTHORITY))
    after = _secret(cluster, _SERVER)
    require_equal(after["ca.crt"], before["ca.crt"], "the authority of the certificate made anew")
    require(after["tls.crt"] != before["tls.crt"], "the certificate is the old one")
    # Swapped: what one side shows to the other.
    swapped = cluster.api.get("Secret", _SCHEDULER, chart.NAMESPACE)["data"]
    cluster.api.patch("Secret", _SERVER, {"data": swapped}, chart.NAMESPACE)
    _wait_for(cluster, "a certificate of a caller is no server's", lambda: _secret(cluster, _SERVER).get("tls.crt") != _secret(cluster, _SCHEDULER)["tls.crt"])
    cluster.run_job("afterwards", 32)
    require_equal(cluster.controller.ask("/readyz")[0], 200, "/readyz")
    keys = [line for each in (_AUTHORITY, _SERVER, _SCHEDULER) for line in _secret(cluster, each)["tls.key"].splitlines() if "-----" not in line]
    seen = cluster.controller.log_text() + cluster.controller.ask("/metrics")[1] + cluster.controller.ask("/configz")[1]
    require(not any(line in seen for line in keys) and "PRIVATE KEY" not in seen, "a private key stands in the log or on a page")


@scenario()
def the_first_leader_makes_certificates_that_kube_scheduler_trusts(cluster):
    """As after `helm install`: empty Secrets, a controller, then a kube-scheduler that gets its files from the Secret."""
    rig, folder = cluster.rig, cluster.scratch / "own-authority"
    folder.mkdir()
    files = {"ca.crt": rig["ASTERISM_EXTENDER_CA"], "tls.crt": rig["ASTERISM_EXTENDER_CLIENT_CERT"], "tls.key": rig["ASTERISM_EXTENDER_CLIENT_KEY"]}
    for file in files.values():
        shutil.copy(file, folder)
    controller = cluster.controller
    controller.terminate()

    def go_back():
        controller.terminate()
        for file in files.values():
            shutil.copy(folder / Path(file).name, file)
        chart.bring_authority(rig)
        controller.tls = tls.context(rig)
        rig.component("asterism-scheduler", "restart")
        controller.start()
        controller.wait_leading(_HEALED_S)
    cluster.defer(go_back)
    for name in (_AUTHORITY, _SERVER, _SCHEDULER):
        cluster.api.patch("Secret", name, {"data": None}, chart.NAMESPACE)
    controller.start()
    _wait_for(cluster, "the leader fills the Secrets", lambda: all(_secret(cluster, _SCHEDULER).get(key) for key in _KEYS))
    for key, file in files.items():
        Path(file).write_text(_secret(cluster, _SCHEDULER)[key], encoding="ascii")
    controller.tls = tls.context(rig)
    controller.wait_leading()
    # Another program than ours says that they are good.
    for name, purpose in ((_SERVER, "sslserver"), (_SCHEDULER, "sslclient")):
        path = folder / f"{name}.pem"
        path.write_text(_secret(cluster, name)["tls.crt"], encoding="ascii")
        done = subprocess.run(["openssl", "verify", "-x509_strict", "-purpose", purpose, "-CAfile", rig["ASTERISM_EXTENDER_CA"], str(path)],
                              capture_output=True, text=True, timeout=20, check=False)
        require(done.returncode == 0, f"openssl verify of {name}: {done.stdout}{done.stderr}")
    strict = ssl.create_default_context(cafile=rig["ASTERISM_EXTENDER_CA"])
    with socket.create_connection(("127.0.0.1", controller.ports["metrics"]), timeout=5) as plain:
        with strict.wrap_socket(plain, server_hostname=f"asterism-extender.{chart.NAMESPACE}.svc"):
            pass
    rig.component("asterism-scheduler", "restart")
    cluster.run_job("train", 64)


@scenario()
def an_expired_certificate_is_replaced_without_a_restart(cluster):
    rig, folder = cluster.rig, cluster.scratch / "expired"
    folder.mkdir()
    cluster.defer(lambda: shutil.rmtree(folder))
    pid = cluster.controller.pid

    def openssl(*arguments):
        done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, timeout=20, check=False)
        require(done.returncode == 0, f"openssl {arguments[0]}: {done.stderr}")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "tls.key", "-out", folder / "request",
            "-subj", "/CN=asterism-extender", "-addext", f"subjectAltName=DNS:asterism-extender.{chart.NAMESPACE}.svc")
    openssl("x509", "-req", "-in", folder / "request", "-CA", rig["ASTERISM_EXTENDER_CA"], "-CAkey", rig["ASTERISM_EXTENDER_CA_KEY"], "-CAcreateserial",
            "-days", "-1", "-copy_extensions", "copy", "-out", folder / "tls.crt")
    data = {key: base64.b64encode((folder / key).read_bytes()).decode() for key in ("tls.crt", "tls.key")}
    cluster.api.patch("Secret", _SERVER, {"data": data}, chart.NAMESPACE)
    expired = (folder / "tls.crt").read_text(encoding="ascii")
    renewals = cluster.controller.metric("asterism_certificate_renewals_total", certificate="server")
    _wait_for(cluster, "the expired certificate is replaced", lambda: _secret(cluster, _SERVER)["tls.crt"] != expired)
    cluster.wait_for(lambda: cluster.controller.metric("asterism_certificate_renewals_total", certificate="server") > renewals, "it is counted")
    require(cluster.controller.metric("asterism_certificate_expiry_timestamp_seconds", certificate="server") > 0, "when it ends is not told")
    cluster.run_job("train", 32)
    require_equal(cluster.controller.pid, pid, "the process")


@scenario()
def kube_scheduler_reads_its_certificate_again_without_a_restart(cluster):
    rig, controller = cluster.rig, cluster.controller
    files = [Path(rig[name]) for name in ("ASTERISM_EXTENDER_CLIENT_CERT", "ASTERISM_EXTENDER_CLIENT_KEY")]
    good = [file.read_bytes() for file in files]

    def put(contents):
        for file, content in zip(files, contents):
            file.write_bytes(content)
    cluster.defer(lambda: put(good))
    put([Path(rig[name]).read_bytes() for name in ("ASTERISM_RIG_ADMIN_CERT", "ASTERISM_RIG_ADMIN_KEY")])
    controller.terminate()     # ends the connections that began with the good one
    controller.start()
    controller.wait_leading()
    job = cluster.submit_job("train", 32)
    job.wait(lambda: len(job.live_pods()) == 4, "its pods are created")
    cluster.wait_for(lambda: controller.metric("asterism_http_handshake_failures_total") >= 2, "the extender refuses a foreign certificate")
    require_equal(job.status().get("pods", {}).get("bound", 0), 0, "pods bound although the extender refuses")
    put(good)
    job.wait_state("Running")
