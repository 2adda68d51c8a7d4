"""Runs the body of a command: exit codes, Ctrl-C and SIGTERM, errors with their remedy."""

import errno
import signal
import sys

from rig import programs
from rig.errors import RigError

INTERRUPTED = 130


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


def _complain(error):
    print(f"error: {error.message}", file=sys.stderr)
    if error.remedy:
        print(f"remedy: {error.remedy}", file=sys.stderr)
    return error.code


def run(body):
    """Calls `body(arguments)` and exits. SIGTERM and SIGHUP unwind like Ctrl-C, so that every cleanup runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    sys.stdout.reconfigure(line_buffering=True)
    try:
        code = body(sys.argv[1:]) or 0
    except RigError as error:
        code = _complain(error)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        code = INTERRUPTED
    except OSError as error:
        # From a short call of kubectl or openssl; what goes on running is started by processes.py.
        if error.errno != errno.ENOEXEC:
            raise
        code = _complain(programs.damaged(error.filename))
    sys.exit(code)
