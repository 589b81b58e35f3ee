#!/usr/bin/env python3
"""Runs gpu-prove, or one of the bundle's programs, on a machine that has none of our packages."""

import os
import platform
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
UNPACKED = os.path.join(HERE, "unpacked")


def unpack():
    done = os.path.join(UNPACKED, "done")
    if not os.path.exists(done):
        with tarfile.open(os.path.join(HERE, "payload.tar.xz")) as payload:
            payload.extractall(UNPACKED)
        find_models()
        with open(done, "w"):
            pass


def find_models():
    """Those of the checkout that a folder made without is part of."""
    models = os.path.join(UNPACKED, "models")
    if not os.path.isdir(models):
        above = os.path.join(HERE, "..", "..", "models")
        if not os.path.isdir(os.path.join(above, "storyteller")):
            sys.exit(f"run: this folder was made without the model, and belongs two folders deep in a checkout: no {above}/storyteller")
        os.symlink(os.path.abspath(above), models)


def version(text):
    return tuple(int(part) for part in text.strip().split(".")[:2])


def libc_is_new_enough():
    """Whether the machine's own C library runs what was linked with ours. Its own is used where it can be: the driver's
    libraries were made for it."""
    with open(os.path.join(UNPACKED, "libc", "version")) as file:
        ours = version(file.read())
    name, theirs = platform.libc_ver()
    return name == "glibc" and os.environ.get("SLUICE_BUNDLE_LIBC") != "ours" and version(theirs) >= ours


def main():
    unpack()
    # Where tests look for what they need of the checkout.
    os.environ.setdefault("SLUICE_PROJECT", UNPACKED)
    oracle = os.path.join(UNPACKED, "oracle")
    if os.path.isdir(oracle):
        os.environ.setdefault("SLUICE_ORACLE_MODELS", oracle)
    folder = "elf" if libc_is_new_enough() else ""
    bin_folder, tests = (os.path.join(UNPACKED, kind, folder) for kind in ("bin", "tests"))
    if sys.argv[1:2] == ["--"]:
        places = [os.path.join(place, sys.argv[2]) for place in (bin_folder, tests)]
        program = next((place for place in places if os.path.exists(place)), None)
        if program is None:
            sys.exit(f"run: the bundle has no program {sys.argv[2]}")
        os.execv(program, [program, *sys.argv[3:]])
    command = [sys.executable, "-B", os.path.join(HERE, "prove.py"), "--bin", bin_folder, "--tests", tests, "--model",
               os.path.join(UNPACKED, "models", "storyteller"), *sys.argv[1:]]
    os.execv(sys.executable, command)  # so that a signal reaches it


if __name__ == "__main__":
    main()
