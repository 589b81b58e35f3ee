"""Runs the tests of a build folder: suite.py [--label perf] PRESET [REGEX].

CTest has one entry a GoogleTest program, Python test or script; this script adds what CTest lacks: REGEX
selects single cases, and the summary counts cases and names those that failed or were skipped. A case's
full name is ENTRY.SUITE.CASE. REGEX is searched for in full names and in names of entries.

Programs record their cases in Testing/cases (tests/testing/case_record.h). Measuring tests have the label
perf and run only when asked for: by --label perf, or by a REGEX that matches them and nothing else."""

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
        entries.append(Entry(test["name"], test.get("command", []), environment, properties.get("LABELS", []),
                             environment.get("SLUICE_TEST_RECORD", "")))
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
    """Names of an entry's cases, remembered in `cache` until its program is built again."""
    if not entry.command or not os.path.isfile(entry.command[-1]):
        return []  # not built; CTest says so if it is chosen by name
    built = str(os.stat(entry.command[-1]).st_mtime_ns)
    if cache.get(entry.name, [""])[0] != built:
        out = subprocess.run(entry.command + ["--gtest_list_tests"], env={**environment, **entry.environment},
                             check=True, stdout=subprocess.PIPE, text=True).stdout
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
        for entry, cases in zip(programs, pool.map(lambda one: list_cases(one, environment, cache), programs)):
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
        return self.announced - self.passed - len(self.failed) - len(self.skipped) - bool(self.running)


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


def summarize(outcomes):
    """Lines for the terminal."""
    lines = []
    failed = [f"{name}.{case}" for name, one in outcomes.items() for case in one.failed]
    failed += [f"{name}.{one.running} did not end" for name, one in outcomes.items() if one.running]
    not_run = sum(one.not_run() for one in outcomes.values())
    skipped = [(reason, f"{name}.{case}") for name, one in outcomes.items() for case, reason in one.skipped.items()]
    if failed:
        lines += ["cases that failed:", *("  " + name for name in sorted(failed))]
    if skipped:
        lines.append(f"{len(skipped)} cases were skipped:")
        for reason, count in collections.Counter(reason for reason, _ in skipped).most_common():
            names = [name for why, name in skipped if why == reason]
            lines.append(f"  {count:5} {reason or 'no reason given'}" + (f" ({names[0]})" if count == 1 else ""))
    passed = sum(one.passed for one in outcomes.values())
    lines.append(f"{passed} cases of {len(outcomes)} programs passed, {len(failed)} failed, {len(skipped)} were skipped"
                 + (f", {not_run} did not run because their program ended before" if not_run else ""))
    return lines


def write_skipped(outcomes, path):
    with open(path, "w", encoding="utf-8") as file:
        for name, one in sorted(outcomes.items()):
            file.writelines(f"{name}.{case}: {reason}\n" for case, reason in one.skipped.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--label", default="", help="run the entries with this label alone")
    parser.add_argument("--jobs", default=str(len(os.sched_getaffinity(0))))
    parser.add_argument("preset")
    parser.add_argument("regex", nargs="?", default="")
    flags = parser.parse_args()
    build = os.path.join(ROOT, "build", flags.preset)
    entries = read_entries(flags.preset)
    command = ["ctest", "--preset", flags.preset, "-j", flags.jobs, "--output-junit", os.path.join(build, "Testing", "ctest.xml")]
    environment = dict(os.environ)

    records = os.path.join(build, "Testing", "cases")
    filters = os.path.join(build, "Testing", "filters")
    for folder in (records, filters):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
    if flags.regex:
        find_cases(entries, flags.preset, build)
        chosen = select([one for one in entries if not flags.label or flags.label in one.labels], flags.regex)
        if not flags.label:
            chosen = without_perf(entries, chosen)
        if not chosen:
            sys.exit(f"no test of build/{flags.preset} matches {flags.regex}")
        for name, cases in chosen.items():
            if cases is not None:
                with open(os.path.join(filters, name), "w", encoding="utf-8") as file:
                    file.write(":".join(cases) + "\n")
        command += ["-R", "^(" + "|".join(re.sub(r"([.+*?()\[\]^$|\\])", r"\\\1", name) for name in chosen) + ")$"]
        environment["SLUICE_TEST_FILTERS"] = filters
    elif flags.label:
        command += ["-L", f"^{flags.label}$"]
    else:
        command += ["-LE", "^perf$"]

    result = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    outcomes = read_outcomes(entries)
    write_skipped(outcomes, os.path.join(build, "Testing", "skipped.txt"))
    print("\n".join(summarize(outcomes)))
    sys.exit(result)


if __name__ == "__main__":
    main()
