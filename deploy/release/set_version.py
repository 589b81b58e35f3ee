#!/usr/bin/env python3
"""The version of Sluice: the file VERSION, and the files of other tools that have to repeat it.

Usage: set_version.py          prints the version, and fails where a file has another one
       set_version.py X.Y.Z    writes it everywhere
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where it is repeated: a file, and a pattern whose group is the version.
COPIES = (
    ("deploy/helm/sluice/Chart.yaml", r"^version: (\S+)$"),
    ("deploy/helm/sluice/Chart.yaml", r"^appVersion: (\S+)$"),
    ("clients/python/pyproject.toml", r'^version = "([^"]+)"$'),
    ("clients/node/package.json", r'^  "version": "([^"]+)",$'),
    ("clients/node/package-lock.json", r'\A\{\s*"name": "sluice-client",\s*"version": "([^"]+)"'),
    ("clients/node/package-lock.json", r'"": \{\s*"name": "sluice-client",\s*"version": "([^"]+)"'),
    ("clients/java/pom.xml", r"<artifactId>sluice-client</artifactId>\s*<version>([^<]+)</version>"),
)
SEMANTIC = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")


def wrong_copies(root, version):
    """Sentences about the files that have another version than `version`, or none."""
    for name, pattern in COPIES:
        found = re.search(pattern, (root / name).read_text(), re.MULTILINE)
        if found is None:
            yield f"{name} has no version where {pattern} is looked for"
        elif found.group(1) != version:
            yield f"{name} has version {found.group(1)}; VERSION is {version}"


def write(root, version):
    (root / "VERSION").write_text(version + "\n")
    for name, pattern in COPIES:
        path = root / name
        text = path.read_text()
        found = re.search(pattern, text, re.MULTILINE)
        path.write_text(text[:found.start(1)] + version + text[found.end(1):])


def main(arguments):
    if arguments:
        if not SEMANTIC.fullmatch(arguments[0]):
            sys.exit(f"set_version.py: {arguments[0]!r} is no semantic version, such as 1.2.3 or 1.2.3-rc.1")
        write(ROOT, arguments[0])
    version = (ROOT / "VERSION").read_text().strip()
    faults = list(wrong_copies(ROOT, version))
    if f"\n## {version}" not in (ROOT / "CHANGELOG.md").read_text() and not arguments:
        faults.append(f"CHANGELOG.md has no section for {version}")
    if faults:
        sys.exit("\n".join(faults))
    print(version)


if __name__ == "__main__":
    main(sys.argv[1:])
