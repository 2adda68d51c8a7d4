"""Starts programs that must not outlive this run, whatever ends it."""

import subprocess


def start(command, log, environment=None):
    """Starts `command` with its output appended to the file `log`.

    The kernel kills it when the calling thread ends, so call from a thread that lives as long as the program is wanted.
    """
    with open(log, "ab") as output:
        return subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *map(str, command)], stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT, env=environment, start_new_session=True)


def resident_kib(pid, field="VmRSS"):
    """VmRSS (now) or VmHWM (most so far) of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        for line in status:
            if line.startswith(field + ":"):
                return int(line.split()[1])
    return 0
