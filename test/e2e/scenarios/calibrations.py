"""What calibration has found stays with the cluster."""

import json

from harness.failure import require, require_equal
from harness.scenario import scenario
from scenarios.placement_service import user

_MAP = "asterism-planner-calibration"
_KEY = "H100.MegatronLM"
_SPEC = {"framework": "MegatronLM", "model": {"preset": "llama-3-8b", "globalBatchSize": 128, "sequenceLength": 8192}}
_QUESTION = {"trainingJobJson": json.dumps({"kind": "TrainingJob", "spec": {"gpus": 64, **_SPEC}}),
             "cluster": {"gpu": "H100", "levels": [{"name": "node", "gpus": 8}, {"name": "cluster", "gpus": 512, "gigabytesPerSecond": 50}]}}


def _plan(caller):
    answer = caller.answer("Planner.Plan", {"question": _QUESTION})
    return answer["tablesVersion"], answer["plans"][0]


def _measured(plan, factor):
    return {"measurements": [{"question": _QUESTION, "launch": {"arguments": plan["arguments"]}, "stepSeconds": factor * plan["stepSeconds"]["value"]}],
            "keep": True}


def _after_a_restart(cluster, caller):
    cluster.controller.kill()
    cluster.controller.start()
    cluster.controller.wait_leading()
    return _answering(cluster, caller.at_the_port_of(cluster))


def _answering(cluster, caller):
    # The gRPC port shows a certificate as soon as the HTTP ports do, but not in the same millisecond.
    cluster.wait_for(lambda: not caller.call("Planner.Plan", {})[1].count("UNAVAILABLE"), "the gRPC port answers")
    return caller


@scenario()
def a_calibration_is_kept_and_planned_with_after_a_restart(cluster):
    cluster.defer(lambda: cluster.rig.kubectl("-n", "asterism-system", "delete", "configmap", _MAP, "--ignore-not-found"))
    operator = _answering(cluster, user(cluster, "calibrator", "edit", "asterism-system"))
    stranger = user(cluster, "not-calibrator")
    shipped, plan = _plan(stranger)
    error = stranger.refused("Planner.Calibrate", _measured(plan, 1.1), "PERMISSION_DENIED")
    require("update configmaps in namespace" in error, error)

    kept = operator.answer("Planner.Calibrate", _measured(plan, 1.1))["tablesVersion"]
    require_equal(kept, f"{shipped}+{_KEY}.1", "the tables in force after the call")
    version, slower = _plan(stranger)
    require_equal(version, kept, "the tables of the next plan")
    require(slower["stepSeconds"]["value"] > 1.02 * plan["stepSeconds"]["value"], f"{slower['stepSeconds']} after {plan['stepSeconds']}")
    again = operator.answer("Planner.Calibrate", _measured(plan, 1.1))["tablesVersion"]
    require_equal(again, f"{shipped}+{_KEY}.2", "the object is changed the second time")

    stranger = _after_a_restart(cluster, stranger)
    require_equal(_plan(stranger)[0], again, "the tables of the process that follows")
    job = cluster.submit_job("calibrated", 64, **_SPEC).wait_state("Running")
    require_equal(job.status()["plan"]["tablesVersion"], again, "the tables of the operator's plan")

    # As docs/operations.md says.
    shown = cluster.rig.kubectl("-n", "asterism-system", "get", "configmap", _MAP, "-o", "yaml")
    require(_KEY in shown, shown)
    log = cluster.controller.log_size()
    _write(cluster, '{"format": 1, "version": 3, "constants": {"product')
    cluster.wait_for(lambda: "calibration_ignored" in cluster.controller.log_text(log), "what is cut off is complained of")
    require_equal(_plan(stranger)[0], again, "the last good one stays in force")
    _write(cluster, None)
    cluster.wait_for(lambda: _plan(stranger)[0] == shipped, "without the key the shipped constants hold")


def _write(cluster, value):
    cluster.rig.kubectl("-n", "asterism-system", "patch", "configmap", _MAP, "--type", "merge", "--patch", json.dumps({"data": {_KEY: value}}))
