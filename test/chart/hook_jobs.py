"""Plays the Jobs of the chart's hooks where no container runs: their command runs here, with the rights of their ServiceAccount.

    with HookJobs(environment, "asterism-system") as played:
        ...                                   # helm upgrade, which waits for the Job
    played.commands                           # what was run

`environment` has KUBECONFIG of an administrator and kubectl in PATH.
"""

import json
import subprocess
import tempfile
import threading
from pathlib import Path

_LOOK_AGAIN_S = 0.3


class HookJobs:
    def __init__(self, environment, namespace):
        self._environment = environment
        self._namespace = namespace
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._played = set()
        self.commands = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        while not self._stopped.wait(_LOOK_AGAIN_S):
            found = self._kubectl("get", "pods", "--selector=app.kubernetes.io/component=definitions", "--output=json")
            for pod in json.loads(found.stdout or '{"items": []}')["items"]:
                if pod["metadata"]["uid"] not in self._played:
                    self._played.add(pod["metadata"]["uid"])
                    self._play(pod)

    def _play(self, pod):
        spec = pod["spec"]
        (container,) = spec["containers"]
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "kubeconfig").write_text(json.dumps(kubeconfig(self._kubectl, spec["serviceAccountName"])))
            words = [*container["command"], *container["args"]]
            for volume, mount in self._config_maps(spec, container):
                words = [word.replace(mount, str(folder / volume)) for word in words]
                self._write(volume, folder / volume)
            self.commands.append(words)
            # As in the container, nothing can be written down.
            own = {"KUBECONFIG": str(folder / "kubeconfig"), "HOME": "/proc/none", "KUBECACHEDIR": "/proc/none"}
            done = subprocess.run(words, env={**self._environment, **own}, text=True, capture_output=True, timeout=100, check=False)
        phase = "Failed" if done.returncode else "Succeeded"
        if done.returncode:
            print(f"{' '.join(words)}: {done.stdout}{done.stderr}", flush=True)
        self._kubectl("patch", "pod", pod["metadata"]["name"], "--subresource=status", "--patch", json.dumps({"status": {"phase": phase}}))

    @staticmethod
    def _config_maps(spec, container):
        sources = {volume["name"]: volume["configMap"]["name"] for volume in spec.get("volumes", []) if "configMap" in volume}
        return [(sources[mount["name"]], mount["mountPath"]) for mount in container.get("volumeMounts", []) if mount["name"] in sources]

    def _write(self, config_map, folder):
        folder.mkdir()
        for name, text in json.loads(self._kubectl("get", "configmap", config_map, "--output=json").stdout)["data"].items():
            (folder / name).write_text(text)

    def _kubectl(self, *arguments):
        return subprocess.run(["kubectl", "--namespace", self._namespace, *arguments], env=self._environment, text=True, capture_output=True,
                              timeout=60, check=False)


def kubeconfig(kubectl, account):
    """One that has the rights of a ServiceAccount and nothing else. `kubectl(*words)` runs it in the namespace of the account."""
    cluster = json.loads(kubectl("config", "view", "--raw", "--flatten", "--minify", "--output=json").stdout)["clusters"][0]["cluster"]
    token = kubectl("create", "token", account).stdout.strip()
    return {"apiVersion": "v1", "kind": "Config", "current-context": "rig", "clusters": [{"name": "rig", "cluster": cluster}],
            "users": [{"name": account, "user": {"token": token}}], "contexts": [{"name": "rig", "context": {"cluster": "rig", "user": account}}]}
