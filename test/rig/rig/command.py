"""Runs the body of a command: exit codes, Ctrl-C and SIGTERM, errors with their remedy."""

import signal
import sys

from rig.errors import RigError

INTERRUPTED = 130


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


def run(body):
    """Calls `body(arguments)` and exits. SIGTERM and SIGHUP unwind like Ctrl-C, so that every cleanup runs."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    sys.stdout.reconfigure(line_buffering=True)
    try:
        code = body(sys.argv[1:]) or 0
    except RigError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.remedy:
            print(f"remedy: {error.remedy}", file=sys.stderr)
        code = error.code
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        code = INTERRUPTED
    sys.exit(code)
