"""The demo behind test/demo/demo: start, stop, status."""

import errno
import os
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import cluster  # noqa: E402
import progress  # noqa: E402
import show  # noqa: E402
import training  # noqa: E402
from home import Home  # noqa: E402
from harness.failure import Failed  # noqa: E402

from rig import ports, programs  # noqa: E402
from rig.errors import RigError  # noqa: E402

INTERRUPTED = 130


def start(home):
    began = time.monotonic()
    print("Asterism: a 512-GPU training job on a real Kubernetes control plane, on this machine.\n"
          "Real: API server, etcd, kube-controller-manager, two stock kube-schedulers, asterism-controller, Helm chart.\n"
          f"Simulated: {cluster.NODES:,} nodes with {cluster.GPUS} GPUs each. Pods on them run no program and have no logs.\n", flush=True)
    # Before the builds, which can take long.
    ports.check_loopback()
    with home.starting():
        try:
            progress.build_programs()
            demo = cluster.Demo(home)
            with progress.stage("control plane and simulated nodes", "usually 10 s"):
                demo.start_rig()
            with progress.stage("helm install charts/asterism", "usually 5 s"):
                demo.install_chart()
            with progress.stage("asterism-controller", "usually 1 s"):
                demo.start_controller()
            with progress.stage("examples/queue.yaml and examples/llama-512.yaml: 64 pods of 8 GPUs", "usually 2 s"):
                seconds = demo.run_job()
        except BaseException:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)  # nothing stops the cleanup halfway
            print("\nremoving what was started", file=sys.stderr, flush=True)
            home.take_down()
            raise
    show.everything(demo, seconds)
    with home.extending():
        training.show()
    print(f"\nAll of it took {time.monotonic() - began:.0f} s.\n")
    show.how_to_go_on(demo)
    return 0


def stop(home):
    print("the demo is taken down" if home.take_down() else "no demo runs here")
    return 0


def status(home):
    if home.being_started():
        print("a demo is being started; end it: make demo-stop")
        return 1
    if not home.complete():
        print("no demo runs here; start it: make demo")
        return 1
    home.check_alive()
    home.check_answers()
    show.how_to_go_on(cluster.Demo(home).attach())
    return 0


def main(verb):
    sys.stdout.reconfigure(line_buffering=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    try:
        return {"start": start, "stop": stop, "status": status}[verb](Home())
    except RigError as error:
        return complain(error.message, error.remedy, error.code)
    except BrokenPipeError:
        # Nobody reads on, as after `make demo | head`. What Python would still write goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return INTERRUPTED
    except (Failed, OSError) as error:
        if getattr(error, "errno", None) == errno.ENOEXEC:
            error = programs.damaged(error.filename)
            return complain(error.message, error.remedy, error.code)
        return complain(str(error), None, 1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def complain(message, remedy, code):
    print(f"error: {message}", file=sys.stderr)
    if remedy:
        print(f"remedy: {remedy}", file=sys.stderr)
    return code


def _interrupt(_signal, _frame):
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
