"""Runs the tests of a build folder: suite.py [--label perf] PRESET [REGEX].

CTest has one entry for each GoogleTest program, Python test or script. This script adds what CTest
lacks: REGEX selects single cases, and the summary counts cases and names those that failed or were
skipped. A case's full name is ENTRY.SUITE.CASE. REGEX is searched for in full names and in names of
entries.

Programs record their cases in Testing/cases (tests/testing/case_record.h). Tests that measure have
the label perf. They run only when asked for: by --label perf, or by a REGEX that matches nothing
else."""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


@dataclass
class Entry:
    """An entry of CTest."""
    name: str
    command: list
    environment: dict
    labels: list
    record: str  # where its cases are recorded; "" unless it is a GoogleTest program
    cases: list = field(default_factory=list)


def read_entries(preset):
    out = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"], cwd=ROOT, check=True,
                         stdout=subprocess.PIPE).stdout
    entries = []
    for test in json.loads(out)["tests"]:
        properties = {one["name"]: one["value"] for one in test.get("properties", [])}
        environment = dict(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
        labels, record = properties.get("LABELS", []), environment.get("SLUICE_TEST_RECORD", "")
        entries.append(Entry(test["name"], test.get("command", []), environment, labels, record))
    return entries


# ---- names of cases ----

def parse_list(text):
    """Names of cases in the output of --gtest_list_tests."""
    names, suite = [], ""
    for line in text.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            names.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return names


def environment_of(preset):
    """What CTest adds to the environment of all tests of a preset."""
    with open(os.path.join(ROOT, "CMakePresets.json"), encoding="utf-8") as file:
        presets = json.load(file)["testPresets"]
    return next((one.get("environment", {}) for one in presets if one["name"] == preset), {})


def list_cases(entry, environment, cache):
    """Names of an entry's cases, remembered until its program or its environment changes."""
    if not entry.command or not os.path.isfile(entry.command[-1]):
        return []  # not built; CTest says so if it is chosen by name
    built = f"{os.stat(entry.command[-1]).st_mtime_ns} {sorted(entry.environment.items())}"
    if cache.get(entry.name, [""])[0] != built:
        out = subprocess.run(entry.command + ["--gtest_list_tests"], check=True, text=True,
                             env={**environment, **entry.environment},
                             stdout=subprocess.PIPE).stdout
        cache[entry.name] = [built, parse_list(out)]
    return cache[entry.name][1]


def find_cases(entries, preset, build):
    environment = {**os.environ, **environment_of(preset)}
    path = os.path.join(build, "Testing", "case_names.json")
    try:
        with open(path, encoding="utf-8") as file:
            cache = json.load(file)
    except (OSError, ValueError):
        cache = {}
    programs = [entry for entry in entries if entry.record]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        lists = pool.map(lambda one: list_cases(one, environment, cache), programs)
        for entry, cases in zip(programs, lists):
            entry.cases = cases
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(cache, file)


# ---- selection ----

def select(entries, regex):
    """{entry's name: its cases whose full name matches, or None for the whole entry}."""
    chosen = {}
    for entry in entries:
        if re.search(regex, entry.name):
            chosen[entry.name] = None
        elif cases := [case for case in entry.cases if re.search(regex, f"{entry.name}.{case}")]:
            chosen[entry.name] = cases
    return chosen


def without_perf(entries, chosen):
    """Measuring tests run by REGEX only where it matches nothing else."""
    perf = {entry.name for entry in entries if "perf" in entry.labels}
    return {name: cases for name, cases in chosen.items() if name not in perf} or chosen


# ---- what programs recorded ----

@dataclass
class Outcome:
    """What one program recorded of its cases."""
    announced: int = 0
    passed: int = 0
    failed: list = field(default_factory=list)
    skipped: dict = field(default_factory=dict)  # case: reason
    running: str = ""  # a case that began and did not end

    def not_run(self):
        ended = self.passed + len(self.failed) + len(self.skipped)
        return self.announced - ended - bool(self.running)


def read_record(lines):
    outcome = Outcome()
    for line in lines:
        word, _, rest = line.rstrip("\n").partition(" ")
        if word == "cases":
            outcome.announced = int(rest)
        elif word == "begin":
            outcome.running = rest
        else:
            if word == "passed":
                outcome.passed += 1
            elif word == "failed":
                outcome.failed.append(outcome.running)
            elif word == "skipped":
                outcome.skipped[outcome.running] = rest
            outcome.running = ""
    return outcome


def read_outcomes(entries):
    outcomes = {}
    for entry in entries:
        if entry.record and os.path.exists(entry.record):
            with open(entry.record, encoding="utf-8", errors="replace") as file:
                outcomes[entry.name] = read_record(file)
    return outcomes


def failures(outcomes):
    """What to print of each failed case."""
    failed = [f"{name}.{case}" for name, one in outcomes.items() for case in one.failed]
    failed += [f"{name}.{one.running} did not end" for name, one in outcomes.items() if one.running]
    return sorted(failed)


def skips(outcomes):
    """{reason: full names of the cases}, the most frequent first."""
    names = collections.defaultdict(list)
    for name, one in outcomes.items():
        for case, reason in one.skipped.items():
            names[reason or "no reason given"].append(f"{name}.{case}")
    return dict(sorted(names.items(), key=lambda item: -len(item[1])))


def summarize(outcomes):
    """Lines for the terminal."""
    if not outcomes:
        return []  # no GoogleTest program ran
    lines = []
    failed, skipped = failures(outcomes), skips(outcomes)
    if failed:
        lines += ["cases that failed:", *("  " + name for name in failed)]
    num_skipped = sum(map(len, skipped.values()))
    if skipped:
        lines.append(f"{num_skipped} cases were skipped:")
    for reason, names in skipped.items():
        lines.append(f"  {len(names):5} {reason}" + (f" ({names[0]})" if len(names) == 1 else ""))
    passed = sum(one.passed for one in outcomes.values())
    last = (f"{passed} cases of {len(outcomes)} programs passed, {len(failed)} failed, "
            f"{num_skipped} were skipped")
    not_run = sum(one.not_run() for one in outcomes.values())
    if not_run:
        last += f", {not_run} did not run because their program ended before"
    return lines + [last]


def write_skipped(outcomes, path):
    with open(path, "w", encoding="utf-8") as file:
        for name, one in sorted(outcomes.items()):
            file.writelines(f"{name}.{case}: {reason}\n" for case, reason in one.skipped.items())


# ---- running ----

def empty_folder(path):
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    return path


def escaped(name):
    """For CMake's regular expressions."""
    return re.sub(r"([.+*?()\[\]^$|\\])", r"\\\1", name)


def choose(entries, flags, build, filters):
    """Arguments of CTest for what REGEX selects; writes filters of programs that run in part."""
    find_cases(entries, flags.preset, build)
    labelled = [one for one in entries if not flags.label or flags.label in one.labels]
    chosen = select(labelled, flags.regex)
    if not flags.label:
        chosen = without_perf(entries, chosen)
    if not chosen:
        sys.exit(f"no test of build/{flags.preset} matches {flags.regex}")
    for name, cases in chosen.items():
        if cases is not None:
            with open(os.path.join(filters, name), "w", encoding="utf-8") as file:
                file.write(":".join(cases) + "\n")
    return ["-R", "^(" + "|".join(map(escaped, chosen)) + ")$"]


def read_flags():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label", default="", help="run the entries with this label alone")
    parser.add_argument("--jobs", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("preset")
    parser.add_argument("regex", nargs="?", default="")
    return parser.parse_args()


def main():
    flags = read_flags()
    build = os.path.join(ROOT, "build", flags.preset)
    testing = os.path.join(build, "Testing")
    entries = read_entries(flags.preset)
    empty_folder(os.path.join(testing, "cases"))
    filters = empty_folder(os.path.join(testing, "filters"))
    command = ["ctest", "--preset", flags.preset, "-j", flags.jobs, "--no-tests=error",
               "--output-junit", os.path.join(testing, "ctest.xml")]
    environment = dict(os.environ)
    if flags.regex:
        command += choose(entries, flags, build, filters)
        environment["SLUICE_TEST_FILTERS"] = filters
    elif flags.label:
        command += ["-L", f"^{flags.label}$"]
    else:
        command += ["-LE", "^perf$"]
    result = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    outcomes = read_outcomes(entries)
    write_skipped(outcomes, os.path.join(testing, "skipped.txt"))
    for line in summarize(outcomes):
        print(line)
    # CTest does not notice a program that ends early with status 0.
    incomplete = failures(outcomes) or any(one.not_run() for one in outcomes.values())
    sys.exit(result or bool(incomplete))


if __name__ == "__main__":
    main()
