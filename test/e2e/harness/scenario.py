"""Marks a function as a scenario and finds all of them.

  @scenario()                    # on the small cluster
  def a_gang_is_placed_whole(cluster): ...

The name says the behaviour. A scenario starts on an empty cluster with one leading controller, and may leave jobs, pods and
broken nodes behind: the runner removes them and checks that nothing else stays.
"""

import fnmatch
import importlib
import pkgutil
from dataclasses import dataclass

SMALL = 64     # nodes; 16 supernodes
LARGE = 1280


@dataclass(frozen=True)
class Scenario:
    name: str
    body: object
    nodes: int
    soak: bool

    @property
    def command(self):
        """Runs it alone."""
        return f"test/e2e/run {'--soak ' if self.soak else ''}--only {self.name}"


def scenario(nodes=SMALL, soak=False):
    """`soak`: takes longer than `make test` may; runs with --soak only."""
    def mark(body):
        body.scenario = Scenario(body.__name__, body, nodes, soak)
        return body
    return mark


def find(pattern=None, soak=False):
    """Scenarios, those on small clusters first, in the order of the files: the long ones where `soak`, else the others.

    `pattern`: a part of their names, or like *quota*.
    """
    import scenarios  # pylint: disable=import-outside-toplevel
    found = []
    for module in sorted(info.name for info in pkgutil.iter_modules(scenarios.__path__)):
        members = vars(importlib.import_module(f"scenarios.{module}")).values()
        found += [member.scenario for member in members if hasattr(member, "scenario")]
    found = [each for each in found if each.soak == soak]
    if pattern:
        found = [each for each in found if fnmatch.fnmatch(each.name, pattern) or pattern in each.name]
    return sorted(found, key=lambda each: each.nodes)
