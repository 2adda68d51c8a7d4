"""The gRPC service with real tokens, TokenReviews and SubjectAccessReviews."""

import json
import os
import re
import subprocess

from harness import jobs, places
from harness.failure import require, require_equal
from harness.scenario import scenario

_CLIENT = places.SOURCE / "build/ci/test/e2e/placement_client"


class Caller:
    """One user of the service."""

    def __init__(self, cluster, token, **files):
        (port,) = re.findall(r"grpc_port=(\d+)", cluster.controller.log_text())[-1:]
        self._token, self._files = token, files
        self._address = f"127.0.0.1:{port}"
        self._environment = {**os.environ, "ASTERISM_TOKEN": token, "ASTERISM_CA": cluster.rig["ASTERISM_EXTENDER_CA"], **files}

    def at_the_port_of(self, cluster):
        """The same user, after the controller was started again."""
        return Caller(cluster, self._token, **self._files)

    def call(self, method, request, *arguments):
        """(messages, error): of one of them there is none."""
        done = subprocess.run([_CLIENT, self._address, method, *arguments], input=json.dumps(request), env=self._environment, text=True,
                              capture_output=True, timeout=60, check=False)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.strip()

    def answer(self, method, request):
        messages, error = self.call(method, request)
        require(not error and len(messages) == 1, f"{method}: {error or messages}")
        return messages[0]

    def refused(self, method, request, code):
        messages, error = self.call(method, request)
        require(not messages and error.startswith(f"{code}:"), f"{method} was not refused with {code}: {error or messages}")
        return error


def user(cluster, name, role=None, namespace="e2e"):
    """A ServiceAccount with a role of the cluster in the namespace. Goes with the scenario."""
    cluster.rig.kubectl("--namespace", namespace, "create", "serviceaccount", name)
    cluster.defer(lambda: cluster.rig.kubectl("--namespace", namespace, "delete", "serviceaccount", name))
    if role:
        cluster.rig.kubectl("--namespace", namespace, "create", "rolebinding", name, f"--clusterrole={role}", f"--serviceaccount={namespace}:{name}")
        cluster.defer(lambda: cluster.rig.kubectl("--namespace", namespace, "delete", "rolebinding", name))
    return Caller(cluster, cluster.rig.kubectl("--namespace", namespace, "create", "token", name).strip())


def _asked(gpus, **spec):
    return {"trainingJobJson": json.dumps(jobs.training_job("asked", gpus, **spec))}


@scenario()
def the_placement_service_answers_by_the_rights_of_a_real_token(cluster):
    editor = user(cluster, "editor", "edit")
    stranger = user(cluster, "stranger")
    nobody = Caller(cluster, "not-a-token")
    # The certificate of the moment follows that of the HTTP ports at once, but not in the same millisecond.
    cluster.wait_for(lambda: not nobody.call("Place", {})[1].count("UNAVAILABLE"), "the gRPC port shows a certificate that callers trust")

    decision = editor.answer("Place", _asked(64))["decision"]
    require_equal(decision["outcome"], "PLACED", "a dry run on an empty cluster")
    real = cluster.run_job("asked", 64)
    require_equal([run["nodes"] for run in decision["placement"]["runs"]], [run["nodes"] for run in real.status()["placement"]["runs"]],
                  "nodes of the dry run and of the job")

    waits = cluster.submit_job("waits", 512)
    waits.wait_waiting("NoCapacity")
    explained = editor.answer("Explain", {"job": {"namespace": "e2e", "name": "waits"}})
    require_equal((explained["waiting"]["reason"], explained["waiting"]["queuePosition"]), ("NoCapacity", "1"), "why the job waits")
    changes = [{"removeJob": {"namespace": "e2e", "name": "asked"}}]
    require_equal(editor.answer("WhatIf", {**_asked(512), "changes": changes})["decision"]["outcome"], "PLACED", "without the other job")
    messages, error = editor.call("WatchQueue", {"namespace": "e2e"}, "1")
    require_equal([row["job"]["name"] for row in messages[0]["jobs"]], ["waits"], f"rows of the queue ({error})")

    # The role edit is bound in one namespace; nodes and all gangs belong to none.
    editor.refused("GetLedger", {}, "PERMISSION_DENIED")
    error = stranger.refused("Place", _asked(8), "PERMISSION_DENIED")
    require("system:serviceaccount:e2e:stranger" in error and "create trainingjobs.asterism.dev" in error, error)
    stranger.refused("Explain", {"job": {"namespace": "e2e", "name": "waits"}}, "PERMISSION_DENIED")
    messages, error = stranger.call("WatchQueue", {}, "1")
    require_equal((messages[0]["jobs"], messages[0]["waitingJobs"]), ([], "1"), f"what a stranger sees of the queue ({error})")
    nobody.refused("Place", _asked(8), "UNAUTHENTICATED")

    # kube-scheduler's certificate is one of a component, which needs no token and sees all.
    component = Caller(cluster, "", ASTERISM_CERTIFICATE=cluster.rig["ASTERISM_EXTENDER_CLIENT_CERT"], ASTERISM_KEY=cluster.rig["ASTERISM_EXTENDER_CLIENT_KEY"])
    ledger = component.answer("GetLedger", {"levels": ["cluster"]})
    require_equal([gang["job"]["name"] for gang in ledger["gangs"]], ["asked"], "gangs that a component sees")
