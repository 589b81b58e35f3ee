#!/usr/bin/env python3
"""Makes the package sluice.v1 from the protos, beside this file or below the folder named.

Usage: generate.py [FOLDER]

Needs protoc and grpc_python_plugin (Debian: protobuf-compiler, protobuf-compiler-grpc).
"""

import glob
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PROTOS = os.environ.get("SLUICE_PROTOS", os.path.join(HERE, "..", "..", "protos"))


def public_files():
    """The public API: what imports the rest of it, and that."""
    done = subprocess.run(["protoc", "-I", PROTOS, f"--descriptor_set_out={os.devnull}", "--dependency_out=/dev/stdout",
                           "sluice/v1/embed.proto"], check=True, capture_output=True, text=True)
    return sorted(set(re.findall(r"sluice/v1/\w+\.proto", done.stdout)))


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else HERE
    plugin = shutil.which("grpc_python_plugin")
    if not shutil.which("protoc") or not plugin:
        sys.exit("generate.py: protoc and grpc_python_plugin are needed: "
                 "apt-get install protobuf-compiler protobuf-compiler-grpc")
    os.makedirs(folder, exist_ok=True)
    subprocess.run(["protoc", "-I", PROTOS, f"--python_out={folder}", f"--pyi_out={folder}", f"--grpc_out={folder}",
                    f"--plugin=protoc-gen-grpc={plugin}", *public_files()], check=True)
    open(os.path.join(folder, "sluice", "v1", "__init__.py"), "w").close()
    if not glob.glob(os.path.join(folder, "sluice", "v1", "*_pb2_grpc.py")):
        sys.exit("generate.py: protoc made nothing")


if __name__ == "__main__":
    main()
