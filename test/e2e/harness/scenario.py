"""Marks a function as a scenario and finds all of them.

  @scenario()                    # on the small cluster
  def a_gang_is_placed_whole(cluster): ...

  @scenario(commit=Commit.BOTH)  # and once more where the operator binds by itself, as ..._by_direct_commit
  def a_killed_leader_leaves_a_whole_gang(cluster): ...

The name says the behaviour. A scenario starts on an empty cluster with one leading controller, and may leave jobs, pods and
broken nodes behind: the runner removes them and checks that nothing else stays.
"""

import enum
import fnmatch
import importlib
import pkgutil
from dataclasses import dataclass

SMALL = 64     # nodes; 16 supernodes
LARGE = 1280
_DIRECT_SUFFIX = "_by_direct_commit"


class Commit(enum.Enum):
    """Who binds the pods of gangs while a scenario runs; see harness/commit_mode.py."""
    SCHEDULER = "kube-scheduler"
    DIRECT = "the operator, where the Queue does not say otherwise"
    BOTH = "two scenarios"
    BOTH_IN_SOAK = "two scenarios, the one with direct commit among the long ones"


@dataclass(frozen=True)
class Scenario:
    name: str
    body: object
    nodes: int
    soak: bool
    direct: bool

    @property
    def command(self):
        """Runs it alone."""
        return f"test/e2e/run {'--soak ' if self.soak else ''}--only {self.name}"


def scenario(nodes=SMALL, soak=False, commit=Commit.SCHEDULER):
    """`soak`: takes longer than `make test` may; runs with --soak only."""
    def mark(body):
        body.scenarios = []
        if commit != Commit.DIRECT:
            body.scenarios.append(Scenario(body.__name__, body, nodes, soak, direct=False))
        if commit != Commit.SCHEDULER:
            suffix = "" if commit == Commit.DIRECT else _DIRECT_SUFFIX
            body.scenarios.append(Scenario(body.__name__ + suffix, body, nodes, soak or commit == Commit.BOTH_IN_SOAK, direct=True))
        return body
    return mark


def find(pattern=None, soak=False):
    """Scenarios, those on small clusters first, of one cluster those with direct commit last, in the order of the files: the
    long ones where `soak`, else the others.

    `pattern`: a part of their names, or like *quota*.
    """
    import scenarios  # pylint: disable=import-outside-toplevel
    found = []
    for module in sorted(info.name for info in pkgutil.iter_modules(scenarios.__path__)):
        loaded = importlib.import_module(f"scenarios.{module}")
        for member in vars(loaded).values():
            if getattr(member, "__module__", None) == loaded.__name__:
                found += getattr(member, "scenarios", [])
    found = [each for each in found if each.soak == soak]
    if pattern:
        found = [each for each in found if fnmatch.fnmatch(each.name, pattern) or pattern in each.name]
    return sorted(found, key=lambda each: (each.nodes, each.direct))
