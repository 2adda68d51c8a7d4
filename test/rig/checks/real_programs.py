"""What real nodes are for: the product's own images run under `restricted`, and torchrun trains across pods as it does by hand."""

import json
import os
import subprocess
from pathlib import Path

from checks.harness import Failed, require
from checks.real_pods import IMAGE, RESTRICTED, Pods, pod
from rig import places

_TREE = places.SOURCE.parents[1]
_EXAMPLE = _TREE / "examples/ddp-tiny"
_PODS, _PROCESSES, _STEPS = 4, 2, 20
_JOB = "train"


class RealProgramChecks:
    """Expects the rig that `RealPodChecks` has used."""

    def __init__(self, harness, rig_name):
        self.harness = harness
        self.rig_name = rig_name
        self.client = harness.client(rig_name)
        self.pods = Pods(self.client)

    def product_images(self):
        build = Path(os.environ.get("ASTERISM_BUILD_DIR") or _TREE / "build/ci")
        out = self.harness.root / "images"
        done = subprocess.run([_TREE / "deploy/images/build", "--build", build, "--out", out], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"not tried: {done.stderr.strip()}"
        archives = sorted(out.glob("*.tar"))
        self.harness.run("node", self.rig_name, "real-0", "load", *map(str, archives))
        tried = []
        for line in done.stdout.splitlines():
            name = line.split()[-1].split("@")[0]
            program = name.rsplit("/", 1)[-1].split(":")[0]
            self.pods.create(f"help-{program}", [f"/usr/local/bin/{program}", "--help"], "real-0",
                             container={"image": name, "securityContext": {**RESTRICTED, "runAsUser": 65532}})
            found = self.pods.await_phase(f"help-{program}", "Succeeded", "Failed")
            ended = found["status"]["containerStatuses"][0]["state"]["terminated"]
            # What it says to --help is its own business; that it starts is what counts.
            require(ended["reason"] in ("Completed", "Error") and self.pods.log(f"help-{program}"), f"{program}: {ended}")
            tried.append(program)
        return ", ".join(tried)

    def _by_hand(self, folder):
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        done = subprocess.run([_EXAMPLE / "by-hand", str(_PODS), str(_PROCESSES), "--steps", str(_STEPS)], env=environment, capture_output=True, text=True,
                              timeout=300, check=False)
        require(done.returncode == 0, done.stderr[-1000:])
        return json.loads(done.stdout.splitlines()[-1])

    def _create_pods(self):
        core = "/api/v1/namespaces/checks"
        self.client.post(f"{core}/configmaps", {"metadata": {"name": _JOB}, "data": {"train.py": (_EXAMPLE / "train.py").read_text(encoding="utf-8")}})
        self.client.post(f"{core}/services", {"metadata": {"name": _JOB}, "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job": _JOB}}})
        first = f"{_JOB}-0.{_JOB}.checks.svc"
        for rank in range(_PODS):
            environment = {
                "OMP_NUM_THREADS": "1", "PET_NNODES": _PODS, "PET_NPROC_PER_NODE": _PROCESSES, "PET_NODE_RANK": rank, "PET_RDZV_BACKEND": "static",
                "PET_RDZV_ENDPOINT": f"{first}:29500", "PET_RDZV_ID": _JOB, "PET_MASTER_ADDR": first, "PET_MASTER_PORT": 29500, "PET_MAX_RESTARTS": 0}
            self.client.post(f"{core}/pods", self._pod(rank, environment))

    def _pod(self, rank, environment):
        body = pod(f"{_JOB}-{rank}", ["torchrun", "/program/train.py", "--steps", str(_STEPS)], f"real-{rank % 3}", hostname=f"{_JOB}-{rank}", subdomain=_JOB,
                   container={"env": [{"name": name, "value": str(value)} for name, value in environment.items()],
                              "volumeMounts": [{"name": "program", "mountPath": "/program"}, {"name": "pytorch", "mountPath": "/opt/pytorch", "readOnly": True},
                                               {"name": "tmp", "mountPath": "/tmp"}]},
                   volumes=[{"name": "program", "configMap": {"name": _JOB}}, {"name": "tmp", "emptyDir": {}},
                            {"name": "pytorch", "persistentVolumeClaim": {"claimName": "pytorch", "readOnly": True}}])
        body["metadata"]["labels"]["job"] = _JOB
        return body

    def training(self):
        done = subprocess.run([places.SOURCE / "pytorch", "--print"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return f"not tried: {done.stderr.strip()}"
        expected = self._by_hand(done.stdout.strip())
        self._create_pods()
        try:
            for rank in range(_PODS):
                found = self.pods.await_phase(f"{_JOB}-{rank}", "Succeeded", "Failed", timeout_s=180.0)
                require(found["status"]["phase"] == "Succeeded", f"pod {rank} failed")
        except Failed as error:
            raise Failed(f"{error}\n{self.pods.log(f'{_JOB}-0')[-1500:]}") from None
        lines = [json.loads(line) for line in self.pods.log(f"{_JOB}-0").splitlines() if line.startswith("{")]
        require(lines[-1] == expected, f"the pods end with {lines[-1]}, the run by hand with {expected}")
        losses = [line["loss"] for line in lines if "step" in line]
        require(len(losses) == _STEPS and losses[-1] < losses[0] - 0.5, f"the loss does not fall: {losses}")
        return f"{_PODS} pods of {_PROCESSES} processes: loss {losses[0]:.3f} -> {expected['loss']}, as by hand ({IMAGE})"

    def run(self):
        for title, body in (
            ("the product's images run as pods under `restricted`, with a read-only root", self.product_images),
            ("torchrun over pods on three nodes ends with the loss of the run by hand", self.training),
        ):
            self.harness.check(title, body)
        self.client.close()
