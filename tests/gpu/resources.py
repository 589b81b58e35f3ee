#!/usr/bin/env python3
"""Holds what every kernel takes of a GPU (registers, spills, shared memory) against the table resources.txt.

Usage: resources.py [--write] FOLDER    FOLDER has what ptxas -v said of each source while it was compiled: *.ptxas

A kernel may take fewer registers than the table says, or as many; more, a spill or a stack that the table lacks is a failure,
since it makes a kernel slower without making it wrong. --write makes the table anew.
"""

import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "resources.txt")
SKIPPED = 77

FUNCTION = re.compile(r"Compiling entry function '(\S+)' for '(\S+)'")
SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def parse(text):
    """{(kernel, architecture): (registers, stack, spilled, shared)} of what ptxas -v says."""
    taken, current, stack, spilled = {}, None, 0, 0
    for line in text.splitlines():
        if found := FUNCTION.search(line):
            current, stack, spilled = found.groups(), 0, 0
        elif current and (found := SPILLS.search(line)):
            stack, stores, loads = map(int, found.groups())
            spilled = stores + loads
        elif current and (found := USED.search(line)):
            shared = SHARED.search(line)
            taken[current] = (int(found.group(1)), stack, spilled, int(shared.group(1)) if shared else 0)
            current = None
    return taken


def named(taken):
    keys = sorted(taken)
    names = demangled([kernel for kernel, _ in keys])
    return {(name, key[1]): taken[key] for name, key in zip(names, keys)}


def read_table(text):
    table = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            architecture, registers, stack, spilled, shared, name = line.split(None, 5)
            table[name, architecture] = tuple(map(int, (registers, stack, spilled, shared)))
    return table


def write_table(taken):
    lines = ["# What ptxas says of every kernel: resources.py --write. Spills are bytes stored and loaded.",
             "# arch  registers  stack  spilled  shared  kernel"]
    for (name, architecture), (registers, stack, spilled, shared) in sorted(taken.items(), key=lambda one: one[0][::-1]):
        lines.append(f"{architecture:7} {registers:9} {stack:6} {spilled:8} {shared:7}  {name}")
    return "\n".join(lines) + "\n"


def differences(table, taken):
    wrong = [f"{name} for {architecture} is not in the table" for name, architecture in sorted(taken.keys() - table.keys())]
    wrong += [f"{name} for {architecture} is no more" for name, architecture in sorted(table.keys() - taken.keys())]
    words = ("registers", "bytes of stack", "bytes spilled", "bytes of shared memory")
    for key in sorted(table.keys() & taken.keys()):
        wrong += [f"{key[0]} for {key[1]} takes {now} {word}, the table has {then}"
                  for now, then, word in zip(taken[key], table[key], words) if now > then]
    return wrong


def main():
    folder = [one for one in sys.argv[1:] if one != "--write"][0]
    logs = sorted(glob.glob(os.path.join(folder, "*.ptxas")))
    if not logs:
        print("SKIPPED: a build without CUDA has no kernels to look at")
        return SKIPPED
    if "--write" not in sys.argv and not os.path.exists(TABLE):
        print(f"SKIPPED: there is no {TABLE} yet; resources.py --write makes it")
        return SKIPPED
    taken = {}
    for log in logs:
        with open(log) as file:
            taken.update(parse(file.read()))
    taken = named(taken)
    if "--write" in sys.argv:
        with open(TABLE, "w") as file:
            file.write(write_table(taken))
        return 0
    with open(TABLE) as file:
        wrong = differences(read_table(file.read()), taken)
    print("\n".join(wrong) or f"{len(taken)} kernels take no more than the table says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
