#!/usr/bin/env python3
"""Holds what every kernel takes of a GPU (registers, spills, shared memory) against the table resources.txt.

Usage: resources.py [--write] FOLDER NVCC    FOLDER has what ptxas -v said of each source while it was compiled: *.ptxas.
NVCC is the compiler's version; another one than the table's may need other registers, and is not compared.

A kernel may take fewer registers than the table says, or as many; more, a spill or a stack that the table lacks is a failure,
since it makes a kernel slower without making it wrong; and so is wgmma that the compiler carries out one by one. --write makes the table anew.
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
NAMESPACES = re.compile(r"sluice::cuda::on_gpu::|sluice::cuda::|sluice::|\(anonymous namespace\)::|^void ")
SHARED = re.compile(r"(\d+) bytes smem")


def demangled(names):
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True)
    return [NAMESPACES.sub("", name) for name in done.stdout.splitlines()]


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


def write_table(taken, nvcc):
    lines = [f"# What ptxas of nvcc {nvcc} says of every kernel: resources.py --write. Spills are bytes stored and loaded.",
             "# arch  registers  stack  spilled  shared  kernel"]
    for (name, architecture), (registers, stack, spilled, shared) in sorted(taken.items(), key=lambda one: one[0][::-1]):
        lines.append(f"{architecture:7} {registers:9} {stack:6} {spilled:8} {shared:7}  {name}")
    return "\n".join(lines) + "\n"


def serialized(text):
    """Kernels whose wgmma instructions wait for each other: the compiler could not keep their registers apart."""
    return sorted(set(re.findall(r"wgmma\.mma_async instructions are serialized.*function '(\S+)'", text)))


def differences(table, taken):
    wrong = [f"{name} for {architecture} is not in the table" for name, architecture in sorted(taken.keys() - table.keys())]
    wrong += [f"{name} for {architecture} is no more" for name, architecture in sorted(table.keys() - taken.keys())]
    words = ("registers", "bytes of stack", "bytes spilled", "bytes of shared memory")
    for key in sorted(table.keys() & taken.keys()):
        wrong += [f"{key[0]} for {key[1]} takes {now} {word}, the table has {then}"
                  for now, then, word in zip(taken[key], table[key], words) if now > then]
    return wrong


def main():
    folder, nvcc = [one for one in sys.argv[1:] if one != "--write"]
    logs = sorted(glob.glob(os.path.join(folder, "*.ptxas")))
    if not logs:
        print("SKIPPED: a build without CUDA has no kernels to look at")
        return SKIPPED
    text = ""
    for log in logs:
        with open(log) as file:
            text += file.read()
    taken = named(parse(text))
    if "--write" in sys.argv:
        with open(TABLE, "w") as file:
            file.write(write_table(taken, nvcc))
        return 0
    with open(TABLE) as file:
        table = file.read()
    if f" nvcc {nvcc} " not in table.splitlines()[0]:
        print(f"SKIPPED: the table is of another compiler than nvcc {nvcc}")
        return SKIPPED
    wrong = differences(read_table(table), taken)
    wrong += [f"{name}: wgmma instructions are serialized" for name in demangled(serialized(text))]
    print("\n".join(wrong) or f"{len(taken)} kernels take no more than the table says")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
