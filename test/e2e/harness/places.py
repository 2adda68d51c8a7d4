"""Where things lie in the source tree, and where a run writes."""

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
RIG = SOURCE / "test" / "rig"
CHART = SOURCE / "charts" / "asterism"
EXAMPLES = SOURCE / "examples"
LOGS = Path(os.environ.get("ASTERISM_E2E_LOGS") or SOURCE / "build" / "e2e-logs")

# The rig's own client and node maker, and the player of the chart's Jobs, are used as they are.
for _folder in (RIG, SOURCE / "test" / "chart"):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))


def built_program(chosen, option):
    """The path, once a program is there. `option` of the command names another one."""
    chosen = Path(chosen)
    if not os.access(chosen, os.X_OK):
        sys.exit(f"error: there is no program {chosen}\nremedy: build it with test/build {_preset(chosen)}, or name another with {option}")
    return chosen.resolve()


def _preset(path):
    """Whose build folder the path lies in; the everyday one where it lies elsewhere."""
    path, builds = path.absolute(), SOURCE / "build"
    return path.relative_to(builds).parts[0] if path.is_relative_to(builds) else "ci"


def controller_program(given=None):
    """Path of asterism-controller: as given, ASTERISM_CONTROLLER, or the build of `make build`."""
    return built_program(given or os.environ.get("ASTERISM_CONTROLLER") or SOURCE / "build/ci/controller/asterism-controller", "--controller")
