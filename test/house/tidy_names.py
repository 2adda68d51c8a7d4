"""Names in anonymous namespaces, which unity builds put into one file, and the sizes of files and functions."""

import re
from collections import defaultdict

from source_tree import code_of, expect, folder_of, line_of

_ANONYMOUS = re.compile(r"\bnamespace\s*\{")
_TYPE = re.compile(r"\b(?:class|struct|enum(?:\s+class)?|union)\s+(\w+)\s*(?:final\s*)?(?:[:{]|$)")
_ALIAS = re.compile(r"\busing\s+(\w+)\s*=")
_FUNCTION = re.compile(r"(?:^|[\s*&>])(\w+)\s*\($")
_VARIABLE = re.compile(r"\b(?:constexpr|const|constinit|static|thread_local)\b.*?\b(\w+)\s*(?:=|\{|\[|$)")
# Macros that open a function of their own: the test framework keeps those names apart.
_MACROS = {"TEST", "TEST_F", "TEST_P", "INSTANTIATE_TEST_SUITE_P", "BENCHMARK", "RC_GTEST_PROP", "MATCHER", "MATCHER_P"}


def anonymous_names(text):
    """{name: line} of what the top level of anonymous namespaces declares; an alias counts as `name = type`."""
    code = code_of(text)
    code = re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", lambda found: "\n" * found.group().count("\n"), code, flags=re.MULTILINE)
    names = {}
    for opening in _ANONYMOUS.finditer(code):
        for start, head in _declarations(code, opening.end()):
            name = _declared_name(head)
            if name:
                names.setdefault(name, line_of(code, start + len(head) - len(head.lstrip())))
    return names


def _declarations(code, position):
    """(start, text up to its body or semicolon) of each declaration, to the end of the namespace."""
    start, depth, head = position, 0, None
    while position < len(code):
        letter = code[position]
        if letter == "{":
            if depth == 0:
                head = code[start:position + 1]
            depth += 1
        elif letter == "}":
            if depth == 0:
                return
            depth -= 1
            following = code[position + 1:position + 60].lstrip()
            # A body ends the declaration; an initialiser or a type goes on to its semicolon.
            if depth == 0 and not following.startswith((";", ",", ")")):
                yield start, head
                start, head = position + 1, None
        elif letter == ";" and depth == 0:
            yield start, head or code[start:position]
            start, head = position + 1, None
        position += 1


def _declared_name(head):
    head = re.sub(r"\btemplate\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>", "", head).strip()
    if head.startswith(("namespace", "extern", "friend", "static_assert")):
        return None
    if found := _ALIAS.search(head):
        # Saying the same twice is allowed.
        return f"{found.group(1)} = {' '.join(head[found.end():].split())}"
    before_parenthesis = head.split("(")[0] + "(" if "(" in head else ""
    if found := _TYPE.search(head.split("(")[0]):
        return found.group(1)
    initialised = re.search(r"(?<![=!<>])=(?!=)", head.split("(")[0])
    if before_parenthesis and not initialised:
        found = _FUNCTION.search(before_parenthesis)
        return None if not found or found.group(1) in _MACROS or "::" in before_parenthesis.split()[-1] else found.group(1)
    found = _VARIABLE.search(head.replace("\n", " "))
    return found.group(1) if found else None


def clashes(files):
    """A name that two sources of one folder both declare."""
    places = defaultdict(list)
    for path, text in files.items():
        if path.endswith(".cc") and not path.startswith(("test/fuzz/", "test/bench/")):
            for declared, line in anonymous_names(text).items():
                name, _, alias = declared.partition(" = ")
                places[folder_of(path), name].append((f"{path}:{line}", alias))
    return [f"{where[0][0]}: {name} is in the anonymous namespace of {', '.join(place for place, _ in where[1:])} too: "
            "rename one, unity builds join them"
            for (_, name), where in places.items() if len(where) > 1 and (not where[0][1] or len({alias for _, alias in where}) > 1)]


def functions(text):
    """(lines, first line, name) of the functions at the top level of a formatted file, which start and end at column 0."""
    head, start = "", 0
    for number, line in enumerate(code_of(text).splitlines(), 1):
        if start and line.startswith("}"):
            if "(" in head and not re.match(r"(?:template\s*<.*?>\s*)?(?:class|struct|enum|union|namespace)\b", head):
                name = re.search(r"([~\w:]+)\s*\(", head)
                yield number - start + 1, start, name.group(1) if name else "?"
            head, start = "", 0
        elif not start or not head.endswith("{"):
            if not start and (not line.strip() or line[0] in " }#" or line.startswith("namespace")):
                continue
            start = start or number
            head = f"{head} {line.strip()}".strip()
            if head.endswith((";", ":")):
                head, start = "", 0


def largest(files, count=3):
    own = {path: text for path, text in files.items() if not path.startswith("test/")}
    by_size = sorted(((text.count("\n"), path) for path, text in own.items()), reverse=True)[:count]
    by_length = sorted(((lines, f"{path}:{line} {name}") for path, text in own.items() for lines, line, name in functions(text)),
                       reverse=True)[:count]
    return [f"largest files: {', '.join(f'{path} ({lines})' for lines, path in by_size)}",
            f"largest functions: {', '.join(f'{name} ({lines})' for lines, name in by_length)}"]


def self_test():
    one = """namespace asterism::x {
namespace {

constexpr int kLimit = 3;
constexpr std::string_view kNames[] = {"a", "b"};
struct Row {
  int Helper() { return 1; }
};
enum class Kind { kA };
using Pairs = std::vector<std::pair<int, int>>;

template <typename T>
absl::StatusOr<std::vector<T>> ReadAll(std::string_view text, int (*f)(int)) {
  const int inner = f(1);
  return {};
}
bool IsFine(int c) { return c == 1; }

}  // namespace
void Row2::Public() {}
"""
    names = set(anonymous_names(one))
    wanted = {"kLimit", "kNames", "Row", "Kind", "Pairs = std::vector<std::pair<int, int>>", "ReadAll", "IsFine"}
    if names != wanted:
        raise SystemExit(f"self-test of anonymous names: {sorted(names)} instead of {sorted(wanted)}")
    two = "namespace {\nint ReadAll(int x) {\n  return x;\n}\n}  // namespace\n"
    expect("clashes", clashes({"x/a.cc": one, "x/b.cc": two}), "x/a.cc:12: ReadAll is in the anonymous namespace of x/b.cc:2 too")
    alias = "namespace {\nusing Json = %s;\n}\n"
    expect("aliases", clashes({"x/a.cc": alias % "int", "x/b.cc": alias % "long"}), "x/a.cc:2: Json")
    if clashes({"x/a.cc": one, "y/b.cc": two}) or clashes({"x/a.cc": alias % "int", "x/b.cc": alias % "int"}):
        raise SystemExit("self-test: names of two folders, or equal aliases, clash")
    if [lines for lines, _, _ in functions("int F(\n    int a) {\n  return a;\n}\n")] != [4]:
        raise SystemExit("self-test: the length of a function is counted wrongly")
