"""What a benchmark prints: a table for people, or one JSON object a line; and its exit code."""

import json
import os
import platform


class Figures:
    def __init__(self, as_json):
        self._as_json = as_json
        self._rows = []
        self._machine = machine()

    def add(self, name, unit, value, budget=None, at_least=False):
        """`budget`: the most that is allowed, or the least with `at_least`; None: only told."""
        fine = budget is None or (value >= budget if at_least else value <= budget)
        self._rows.append((name, unit, value, budget, at_least, fine))
        if self._as_json:
            print(json.dumps({"name": name, "unit": unit, "value": _rounded(value), "budget": budget, "ok": fine, "machine": self._machine}),
                  flush=True)

    def finish(self):
        """Prints the table. Returns the exit code."""
        if not self._as_json:
            width = max(len(row[0]) for row in self._rows)
            for name, unit, value, budget, at_least, fine in self._rows:
                limit = "" if budget is None else f"  {'at least' if at_least else 'at most'} {budget:g}: {'ok' if fine else 'MISSED'}"
                print(f"{name:<{width}}  {_rounded(value):>10g} {unit:<8}{limit}")
            print(f"machine: {self._machine}")
        return 0 if all(row[5] for row in self._rows) else 1


def _rounded(value):
    return float(f"{value:.4g}")


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8", errors="replace")
                  if line.startswith("model name")), platform.machine())
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} x {model}, {gib:.0f} GiB, Linux {platform.release()}"
