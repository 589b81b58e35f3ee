#!/usr/bin/env python3
"""Puts the client for Go, with the code that protoc generates, into a folder that a Go toolchain takes for a module proxy.

Usage: go_module.py FOLDER VERSION MODULE

FOLDER/MODULE/@v gets list, vVERSION.info, .mod and .zip (https://go.dev/ref/mod#goproxy-protocol). Sources import each other by
MODULE, in place of the name that they have in the tree. Needs protoc, protoc-gen-go and protoc-gen-go-grpc.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

GO = pathlib.Path(__file__).resolve().parents[2] / "clients" / "go"
NAME = "sluice"  # of the module in the tree


def sources(folder, module):
    """{path: bytes} of the module's files under its new name."""
    files = {}
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.suffix not in (".go", ".mod", ".md"):
            continue
        text = path.read_text()
        if path.suffix == ".go":
            text = re.sub(rf'"{NAME}(/[^"]*)?"', lambda found: f'"{module}{found.group(1) or ""}"', text)
        elif path.name == "go.mod":
            text = text.replace(f"module {NAME}\n", f"module {module}\n", 1)
        files[path.relative_to(folder).as_posix()] = text.encode()
    return files


def main(folder, version, module):
    epoch = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name) / "go"
        shutil.copytree(GO, copy, ignore=shutil.ignore_patterns("v1"))
        environment = {**os.environ, "SLUICE_PROTOS": str(GO.parents[1] / "protos")}
        subprocess.run(["sh", "generate.sh"], cwd=copy, env=environment, check=True)
        # protoc puts it below the name of its package.
        files = sources(copy, module)
    target = pathlib.Path(folder) / module / "@v"
    target.mkdir(parents=True, exist_ok=True)
    (target / "list").write_text(f"v{version}\n")
    time = subprocess.run(["date", "-u", "-d", f"@{epoch}", "+%Y-%m-%dT%H:%M:%SZ"], capture_output=True, text=True,
                          check=True).stdout.strip()
    (target / f"v{version}.info").write_text(json.dumps({"Version": f"v{version}", "Time": time}) + "\n")
    (target / f"v{version}.mod").write_bytes(files["go.mod"])
    with zipfile.ZipFile(target / f"v{version}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            # One time for all, so that the same sources are the same bytes.
            archive.writestr(zipfile.ZipInfo(f"{module}@v{version}/{path}", (1980, 1, 1, 0, 0, 0)), content,
                             zipfile.ZIP_DEFLATED)


if __name__ == "__main__":
    main(*sys.argv[1:4])
