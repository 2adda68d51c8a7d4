"""The commands that README.md and docs/ tell people to type.

Those are: every command in a block of `sh`, every line of a block that starts with `$ `, and every `command` in the text that
begins with one of the programs below. A block that begins with #! is a program, and one command.
"""

import re
from dataclasses import dataclass

from harness import places

_BLOCK = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
_IN_TEXT = re.compile(r"`([^`]+)`")
_PROGRAMS = re.compile(r"(kubectl|helm|make|docker|source|deploy/[\w-]+|test/[\w/-]+) ")
_EXIT_CODE = re.compile(r"\s# exit code (\d)")
_COMMENT = re.compile(r"\s+# .*")


@dataclass(frozen=True)
class Command:
    page: str
    text: str
    code: int = 0      # as the page says
    program: bool = False


def commands():
    """All of them, each once, in the order of the pages."""
    found = {}
    for path in [places.SOURCE / "README.md", *sorted((places.SOURCE / "docs").glob("*.md"))]:
        for command in of_page(path.name, path.read_text(encoding="utf-8")):
            found.setdefault(command.text, command)
    return list(found.values())


def of_page(page, text):
    for language, block in _BLOCK.findall(text):
        if block.startswith("#!"):
            yield Command(page, block, program=True)
            continue
        lines = [line.strip() for line in block.replace("\\\n", " ").splitlines()]
        if language != "sh":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        for line in lines:
            if words := " ".join(_COMMENT.sub("", line).split()):
                code = _EXIT_CODE.search(line)
                yield Command(page, words, int(code[1]) if code else 0)
    for words in _IN_TEXT.findall(_BLOCK.sub("", text)):
        if _PROGRAMS.match(words := " ".join(words.split())):
            yield Command(page, words)
