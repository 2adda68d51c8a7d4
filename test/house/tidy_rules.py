"""Rules of the tidy test that look at one file, or at a file and its build description."""

import re

from source_tree import code_of, expect, folder_of, line_of

_LAUNCH = {"launch/": "a static program of one thread that links little", "test/launch/": "waits for other processes"}
# What, what instead, and where it is allowed after all with the reason. Folders end with '/'.
_BANNED = [
    (r"\b(?:std::)?s?rand\s*\(", "base::Rng with a seed", {}),
    (r"\bstd::random_device\b|\bgetrandom\b", "base::Rng::SystemSeed", {"base/rng.cc": "is that function"}),
    (r"\b(?:system_clock|steady_clock|high_resolution_clock)::now\b|\babsl::(?:Now|GetCurrentTimeNanos)\s*\(|\bclock_gettime\b"
     r"|\bgettimeofday\b|(?<![\w.>:])time\s*\(\s*(?:0|NULL|nullptr)\s*\)",
     "base::Clock, handed in",
     {"base/clock.cc": "is that class", "test/bench/": "benchmarks read the CPU's clock too",
      "launch/clocks.cc": "is that of a program that links little: intervals are of SteadyNow()", "test/launch/": "waits for other processes",
      "agent/device_plugin.cc": "gRPC's deadlines are of this clock", "agent/pod_resources.cc": "the same", "test/agent/": "the same"}),
    (r"\bsleep_(?:for|until)\b|\babsl::SleepFor\b|\b(?:u|nano)?sleep\s*\(", "Executor::PostAfter, or a Notification in a test", _LAUNCH),
    (r"\bstd::(?:basic_)?regex\b", "a hand-written scan or absl: std::regex is slow and recurses over its input", {}),
    (r"\bstd::(?:jthread|async)\b|\bpthread_create\b|\bstd::thread\b(?!::id)", "base::ThreadExecutor",
     {"base/": "owns the threads", "test/": "tests race on purpose"}),
    (r"\bstd::shuffle\b|\bstd::uniform_\w+_distribution\b", "base::Rng: the standard's differ between libraries", {}),
    (r"\busing\s+namespace\s+std\b", "the names that are used", {}),
    (r"\bstrcpy\s*\(|\bsprintf\s*\(|\bstrcat\s*\(|\bgets\s*\(", "fmt::format or absl::StrCat", {}),
]
# Threads that cannot be an executor, each with its reason.
_THREAD_EXCEPTIONS = {
    "kube/curl_lane.h": "sits in curl_multi_poll, which no executor can wake",
    "kube/curl_lane.cc": "the same",
    "agent/pod_port.h": "sits in poll",
    "agent/pod_port.cc": "the same",
    "agent/probe/probe_thread.cc": "a driver's call that hangs is left behind, which no executor can do",
}
for _pattern, _instead, _allowed in _BANNED:
    if _instead == "base::ThreadExecutor":
        _allowed.update(_THREAD_EXCEPTIONS)


def banned_calls(files):
    findings = []
    for path, text in files.items():
        code = code_of(text)
        for pattern, instead, allowed in _BANNED:
            if any(path == place or place.endswith("/") and path.startswith(place) for place in allowed):
                continue
            findings += [f"{path}:{line_of(code, found.start())}: {found.group().strip()}: use {instead}"
                         for found in re.finditer(pattern, code)]
    return findings


def banners(files):
    """Every header opens with what it is, who may call it from where, and what it costs."""
    findings = []
    for path, text in files.items():
        if not path.endswith(".h"):
            continue
        banner = re.match(r"(?://[^\n]*\n)*", text).group()
        if not banner.startswith(f"// File: {path}\n"):
            findings.append(f"{path}:1: the first line must be: // File: {path}")
        for word in ("Thread-safety", "Cost"):
            # "Thread-safety and cost: ..." counts for both.
            if not re.search(rf"\b{word}\b", banner, re.IGNORECASE):
                findings.append(f"{path}:1: the banner does not say: {word}")
        if "#pragma once" not in text:
            findings.append(f"{path}:1: #pragma once is missing")
    return findings


def dead_files(code, protos, builds):
    """A source that no target names, a header that nobody includes."""
    findings = []
    named = set()
    for build, text in builds.items():
        for word in re.findall(r"[\w./-]+\.(?:cc|proto)\b", re.sub(r"#[^\n]*", "", text)):
            named.add(_normal(f"{folder_of(build)}/{word}"))
    included = set()
    for path, text in code.items():
        for name in re.findall(r'#\s*include\s*"([^"]+)"', text):
            included |= {name, f"{folder_of(path)}/{name}"}
    for path in [*code, *protos]:
        if path.endswith((".cc", ".proto")) and not path.startswith("cmake/") and path not in named:
            findings.append(f"{path}: no CMakeLists.txt names this file")
        if path.endswith(".h") and path not in included:
            findings.append(f"{path}: nobody includes this file")
    return findings


def _normal(path):
    parts = []
    for part in path.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)


# A function that turns foreign text or bytes into something.
_PARSER = re.compile(r"\b(?:Parse|Decode)\w*\s*\(\s*(?:const\s+)?(?:std::string(?:_view)?|std::span)\b")


def unfuzzed_parsers(code, builds, listing):
    """parsers.txt: `header target...`, or `header - reason` for one that a listed parser calls."""
    findings = []
    declared = set(re.findall(r"asterism_fuzz\(\s*NAME\s+(\w+)", "\n".join(builds.values())))
    known = {}
    for line in listing.splitlines():
        words = line.split("#")[0].split()
        if words:
            known[words[0]] = words[1:]
    for header, targets in known.items():
        if header not in code:
            findings.append(f"test/house/parsers.txt: no such header: {header}")
        if not targets or targets == ["-"]:
            findings.append(f"test/house/parsers.txt: {header} has neither a target nor a reason")
        elif targets[0] != "-":
            findings += [f"test/house/parsers.txt: {header}: no asterism_fuzz declares {target}"
                         for target in targets if target not in declared or f"test/fuzz/{target}.cc" not in code]
    for path, text in code.items():
        found = _PARSER.search(code_of(text)) if path.endswith(".h") and not _for_tests(path) else None
        if found and path not in known:
            findings.append(f"{path}:{line_of(code_of(text), found.start())}: a parser without a fuzz target: "
                            "list it in test/house/parsers.txt")
    return findings


def _for_tests(path):
    return path.startswith("test/") or "/testing/" in path


def bare_todos(files):
    return [f"{path}:{line_of(text, found.start())}: write TODO(reason): what is missing and when it matters"
            for path, text in files.items()
            for found in re.finditer(r"\b(?:TODO(?!\([^()\s][^()]*\): \S)|FIXME|XXX)\b", text)]


def self_test():
    bad = {
        "kube/a.cc": "int f() { return rand(); }\nauto t = std::chrono::steady_clock::now();\n// rand() here is fine\n"
                     'const char* s = "std::regex";\nstd::thread worker;\nvoid g() { absl::SleepFor(x); }\n',
        "kube/b.h": "// File: kube/other.h\n\nabsl::StatusOr<int> ParseThing(std::string_view text);\n// TODO: later\n",
        "kube/c.cc": "// FIXME\n",
    }
    good = {
        "base/a.cc": "std::thread t;\nint x = 1'000'000;  // steady_clock::now\n",
        "base/b.h": "// File: base/b.h\n//\n// Thread-safety and cost: none.\n#pragma once\n// TODO(needs 1.37): drop it\n",
        "test/kube/c.cc": '#include "base/b.h"\nstd::thread t;\n',
    }
    builds = {"base/CMakeLists.txt": "asterism_library(NAME base SOURCES a.cc)",
              "test/kube/CMakeLists.txt": "asterism_test(SOURCES c.cc)\n# ../../kube/a.cc\nasterism_fuzz(NAME x_fuzz)\n"}
    expect("banned calls", banned_calls(bad), "a.cc:1: rand(", "a.cc:2:", "a.cc:5: std::thread", "a.cc:6:")
    if len(banned_calls(bad)) != 4:
        raise SystemExit(f"self-test: comments or strings are looked at: {banned_calls(bad)}")
    expect("banners", banners(bad), "// File: kube/b.h", "Thread-safety", "Cost", "#pragma once")
    expect("dead files", dead_files(bad, {"proto/x.proto": ""}, builds), "kube/a.cc: no CMake", "kube/b.h: nobody", "proto/x.proto")
    expect("parsers", unfuzzed_parsers(bad, builds, "kube/none.h a_fuzz\nkube/c.h -\nkube/d.h x_fuzz\n"),
           "kube/b.h:3: a parser without", "no such header: kube/none.h", "kube/c.h has neither", "declares a_fuzz", "declares x_fuzz")
    expect("TODO", bare_todos(bad), "kube/b.h:4", "kube/c.cc:1")
    refused = [*banned_calls(good), *banners(good), *dead_files(good, {}, builds), *bare_todos(good), *unfuzzed_parsers(good, builds, "")]
    if refused:
        raise SystemExit(f"self-test: good files are refused: {refused}")
