"""Reads status.placement, and measures how good a placement is from the nodes' own labels. Shares no code with the product."""

import re

SUPERNODE_LABEL = "asterism.dev/declared-supernode"


def node_names(text):
    """["gpu-0000", "gpu-0001", "login-1"] from "gpu-[0000-0001],login-1". "*n" repeats each name of its range n times."""
    names = []
    for part in _split_outside_brackets(text):
        names += _expand(part)
    return names


def _split_outside_brackets(text):
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    return parts + [current] if current else parts


def _expand(part):
    match = re.fullmatch(r"([^\[\]*]*)\[([^\]]*)\]([^\[\]*]*)", part)
    if match:
        prefix, ranges, suffix = match.groups()
        return [f"{prefix}{number}{suffix}" for entry in ranges.split(",") for number in _numbers(entry)]
    name, _, times = part.partition("*")
    return [name] * int(times or 1)


def _numbers(entry):
    entry, _, times = entry.partition("*")
    first, _, last = entry.partition("-")
    numbers = range(int(first), int(last or first) + 1)
    return [f"{number:0{len(first)}}" for number in numbers for _ in range(int(times or 1))]


def blocks(status):
    """[(first rank, node, epoch)] of status.placement, in rank order."""
    found = []
    for run in status.get("placement", {}).get("runs", []):
        names = node_names(run["nodes"])
        ranks = run["ranks"] // len(names)
        for index, name in enumerate(names):
            found.append((run.get("firstRank", 0) + index * ranks, name, run["epoch"]))
    return sorted(found)


def spares(status):
    """The node of each spare of status.placement."""
    return [name for run in status.get("placement", {}).get("spares", []) for name in node_names(run["nodes"])]


def supernodes(nodes, names):
    """The supernode of each name. `nodes`: objects of the API."""
    labels = {node["metadata"]["name"]: node["metadata"]["labels"].get(SUPERNODE_LABEL) for node in nodes}
    return [labels[name] for name in names]


def ring_cuts(domains):
    """Edges i -> i+1 of the ring over the ranks that leave a domain."""
    return sum(1 for i, domain in enumerate(domains) if domain != domains[(i + 1) % len(domains)])
