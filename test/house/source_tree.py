"""The files of the repository as texts, and C++ text without comments and strings; for the checks in this folder."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def paths(*patterns):
    """Paths of all files that git tracks, or would track, and that match; patterns are git pathspecs."""
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", *patterns],
        check=True, capture_output=True, text=True).stdout
    return sorted(path for path in set(listed.split("\0")) if path and (ROOT / path).is_file())


def read(*patterns):
    """{path: text} of the same. Test data need not be text."""
    return {path: (ROOT / path).read_text(encoding="utf-8", errors="replace") for path in paths(*patterns)}


_NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/"""                      # comments
    r"""|R"(?P<mark>[^()\s\\]{0,16})\(.*?\)(?P=mark)\""""  # raw strings
    r"""|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])+'""",  # strings and characters
    re.DOTALL)
_DIGITS = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")


def code_of(text):
    """The text with comments, strings and character constants blanked; lines keep their numbers."""
    def blank(match):
        kept = '""' if match.group().startswith(('"', "R")) else " "
        return kept + "\n" * match.group().count("\n")
    return _NOISE.sub(blank, _DIGITS.sub("", text))


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def folder_of(path):
    return path.rsplit("/", 1)[0] if "/" in path else ""


def report(findings, checked):
    """Prints the findings, or what was looked at; returns the exit code."""
    for finding in sorted(findings):
        print(finding)
    print(f"{len(findings)} findings" if findings else f"ok: {checked}")
    return 1 if findings else 0


def expect(what, findings, *parts):
    """Ends the program unless each part stands in some finding: a check that finds nothing on a bad sample is broken."""
    for part in parts:
        if not any(part in finding for finding in findings):
            raise SystemExit(f"self-test of {what}: nothing found for {part!r} in {sorted(findings)}")
