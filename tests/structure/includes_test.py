#!/usr/bin/env python3
"""Holds every include of the libraries and programs against the dependencies that their CMakeLists.txt declare.

A file may include headers of its own library and of those that its library names in DEPS, be they ours or others';
what comes along with a dependency does not count, so that DEPS tell a reader what a folder builds upon. Headers of
the standard library and of the system are free.
"""

import os
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("kernels", "services", "orchestrator", "clients", "tests/gpu/emulator", "tests/gpu/host")

# Which dependency gives a header that is not ours, by the beginning of its path; the first that fits.
OTHERS = (
    ("absl/base/", None),  # of every Abseil library
    ("absl/container/btree_", "absl::btree"),
    ("absl/container/", "absl::{stem}"),
    ("absl/flags/", "absl::flags|absl::flags_{stem}"),
    ("absl/functional/", "absl::{stem}"),
    ("absl/numeric/", "absl::{stem}"),
    ("absl/status/", "absl::{stem}"),
    ("absl/strings/str_format", "absl::str_format"),
    ("absl/strings/", "absl::strings"),
    ("absl/synchronization/", "absl::synchronization"),
    ("absl/time/", "absl::time"),
    ("absl/types/", "absl::{stem}"),
    ("google/protobuf/", "sluice_protos"),
    ("grpc/health/v1/", "sluice_health_proto"),
    ("grpc", "PkgConfig::grpc|sluice_protos"),
    ("sluice/v1/", "sluice_protos"),
    ("hwy/", "hwy::hwy"),
)

COMMAND = re.compile(r"\b(sluice_library|sluice_binary)\s*\(([^)]*)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)


class Target:
    """A library or program: its name, the files that belong to it, and what it declares."""

    def __init__(self, folder, arguments):
        sections = {}
        current = None
        for word in re.sub(r"#[^\n]*", "", arguments).split():
            if word in ("NAME", "SRCS", "DEPS"):
                current = sections.setdefault(word, [])
            else:
                current.append(word)
        self.folder = folder
        self.name = sections["NAME"][0]
        self.sources = [folder / source for source in sections.get("SRCS", ())]
        self.deps = set(sections.get("DEPS", ()))


def targets_of(root):
    """The targets of all folders, in the order of their definition."""
    for folder in FOLDERS:
        for listing in sorted((root / folder).rglob("CMakeLists.txt")):
            for _, arguments in COMMAND.findall(listing.read_text()):
                yield Target(listing.parent, arguments)


def files_of(targets):
    """Which target each file belongs to.

    A header belongs to the target that lists it, or its source, or else to the largest of the folder above it.
    """
    owner = {source: target for target in targets for source in target.sources}
    for source, target in list(owner.items()):
        owner.setdefault(source.with_suffix(".h"), target)
    folders = {}
    for target in targets:
        largest = folders.setdefault(target.folder, target)
        if len(target.sources) > len(largest.sources):
            folders[target.folder] = target
    for folder in folders:
        for header in folder.rglob("*.h"):
            nearest = next(above for above in header.parents if above in folders)
            owner.setdefault(header, folders[nearest])
    return owner


def needed_for(include):
    """The dependencies of which one must be declared for a header that is not ours; none: it is free."""
    for beginning, dependency in OTHERS:
        if include.startswith(beginning):
            if dependency is None:
                return ()
            return dependency.replace("{stem}", pathlib.PurePath(include).stem).split("|")
    return ()


def undeclared(root):
    """Every include that no declared dependency of its file's target allows, as text."""
    targets = list(targets_of(root))
    owner = files_of(targets)
    found = []
    for file, target in sorted(owner.items()):
        if not file.exists():
            continue
        for include in INCLUDE.findall(file.read_text()):
            ours = owner.get(root / include)
            needed = (ours.name,) if ours else needed_for(include)
            if needed and target.name not in needed and not target.deps.intersection(needed):
                found.append(f"{file.relative_to(root)} includes {include}: {target.name} must name {needed[0]}")
    return found


class IncludesTest(unittest.TestCase):
    def test_every_include_is_of_a_declared_dependency(self):
        self.assertGreater(len(files_of(list(targets_of(ROOT)))), 200)
        self.assertEqual([], undeclared(ROOT))

    def test_notices_what_is_not_declared(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            for folder in FOLDERS:
                os.makedirs(root / folder)
            (root / "kernels/CMakeLists.txt").write_text("sluice_library(NAME low SRCS low.cc)")
            (root / "kernels/low.h").write_text("#include <vector>\n")
            (root / "kernels/low.cc").write_text('#include "kernels/low.h"\n')
            listing = root / "services/CMakeLists.txt"
            (root / "services/high.h").write_text('#include "kernels/low.h"\n#include "absl/types/span.h"\n')
            listing.write_text("sluice_library(NAME high SRCS high.cc DEPS low absl::span)")
            self.assertEqual([], undeclared(root))
            listing.write_text("sluice_library(NAME high SRCS high.cc)")
            self.assertEqual(
                ["services/high.h includes kernels/low.h: high must name low",
                 "services/high.h includes absl/types/span.h: high must name absl::span"],
                undeclared(root))


if __name__ == "__main__":
    sys.exit(unittest.main())
