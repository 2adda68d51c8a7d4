"""The controller writes nothing but its log; where that has no room, it goes on without."""

from pathlib import Path

from harness.failure import require_equal
from harness.scenario import scenario


@scenario()
def a_full_disk_costs_the_log_and_nothing_else(cluster):
    controller, log = cluster.controller, cluster.controller.log
    controller.terminate()
    controller.log = Path("/dev/full")
    controller.start()
    controller.log = log
    controller.wait_leading()
    job = cluster.run_job("train", 128).require_whole(16)
    cluster.wait_for(lambda: controller.metric("asterism_log_lines_lost_total") > 0, "asterism_log_lines_lost_total rises")
    job.delete().wait_gone()
    require_equal(controller.terminate()[1], 0, "exit code")
