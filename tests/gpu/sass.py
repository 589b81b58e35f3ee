#!/usr/bin/env python3
"""Counts the instructions of each kernel's machine code that say how it works, by `cuobjdump -sass`.

usage: sass.py PROGRAM [CUOBJDUMP], or `cuobjdump -sass PROGRAM | sass.py -`

One line a kernel: how many of its instructions multiply by wgmma (HGMMA BF16, QGMMA FP8), by mma.sync (HMMA), copy in bulk
(UBLKCP) or by threads (LDGSTS), load tiles (LDSM), spill (LDL, STL), exchange registers between warps (USETMAXREG) and wait for
multiplies (WARPGROUP: arrive, wait), how many there are in all, and the highest register. A kernel of ours has no LDL or STL;
one called *pipelined* has HGMMA or QGMMA, UBLKCP and two USETMAXREG.
"""

import collections
import os
import re
import shutil
import subprocess
import sys

COUNTED = ["HGMMA", "QGMMA", "HMMA", "UBLKCP", "LDGSTS", "LDSM", "LDL", "STL", "USETMAXREG", "WARPGROUP", "DEPBAR"]
FUNCTION = re.compile(r"\s*Function : (\S+)")
ARCHITECTURE = re.compile(r"\s*(?:arch = |code for )(sm_\w+)")
INSTRUCTION = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)([^;]*);")
REGISTER = re.compile(r"\bR(\d+)\b")


def mix(lines):
    """{(architecture, kernel): Counter of instructions, "all" and "registers" included}."""
    found, counter, architecture = {}, None, ""
    for line in lines:
        if match := ARCHITECTURE.match(line):
            architecture = match[1]
        elif match := FUNCTION.match(line):
            counter = found.setdefault((architecture, match[1]), collections.Counter())
        elif counter is not None and (match := INSTRUCTION.match(line)):
            counter["all"] += 1
            counter[match[1]] += 1
            registers = [int(number) + 1 for number in REGISTER.findall(match[2])]
            counter["registers"] = max([counter["registers"], *registers])
    return found


def demangled(names):
    """Of each name; as it is without c++filt."""
    if not names or not shutil.which("c++filt"):
        return dict(zip(names, names))
    out = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True, check=True).stdout
    return dict(zip(names, out.splitlines()))


def table(found):
    """Lines of text, kernels by name."""
    names = demangled([kernel for _, kernel in found])
    yield "# " + " ".join(["arch", *COUNTED, "all", "registers", "kernel"])
    rows = []
    for (architecture, kernel), counter in found.items():
        name = re.sub(r"sluice::cuda::(on_gpu::)?|\(anonymous namespace\)::|^void ", "", names[kernel])
        numbers = " ".join(f"{counter[one]:5}" for one in [*COUNTED, "all", "registers"])
        rows.append(f"{architecture:8} {numbers}  {name}")
    yield from sorted(rows)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if sys.argv[1] == "-":
        found = mix(sys.stdin)
    else:
        tool = sys.argv[2] if len(sys.argv) == 3 else shutil.which("cuobjdump") or "/usr/local/cuda/bin/cuobjdump"
        if not os.path.exists(tool):
            sys.exit("sass.py: there is no cuobjdump here")
        with subprocess.Popen([tool, "-sass", sys.argv[1]], stdout=subprocess.PIPE, text=True) as process:
            found = mix(process.stdout)
    if not found:
        sys.exit("sass.py: no machine code was found")
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
