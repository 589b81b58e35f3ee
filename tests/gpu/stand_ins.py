"""Programs, parts and a report that are stand-ins: what tests of gpu-prove have in common where there is no GPU."""

import json
import os
import sys
import threading
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import parts  # noqa: E402
from context import Context  # noqa: E402
from prove import run_part  # noqa: E402
from run import Limit  # noqa: E402


def put_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")")[-1].split()[0] != "Z"
    except OSError:
        return False


# As GoogleTest writes it.
LOG = """[ RUN      ] Gpu.Adds
[       OK ] Gpu.Adds (12 ms)
[ RUN      ] Gpu.Reads/0
there is none
[  SKIPPED ] Gpu.Reads/0 (0 ms)
[ RUN      ] Gpu.Multiplies/1
one.cc:3: Failure
Expected: 7
[  FAILED  ] Gpu.Multiplies/1, where GetParam() = 8-byte object <01-00> (3 ms)
[ RUN      ] Gpu.Waits
"""


class Parts:
    """A folder of programs that are stand-ins, and parts that run them."""

    def __init__(self, folder, device="cuda:0"):
        self.folder = folder
        self.put_kept = []  # what was written down on the way
        flags = types.SimpleNamespace(bin=folder, tests=folder, device=device, model="/model", gpu_instructions="auto", large_model="",
                                      scratch="", minutes=1, only="")
        self.context = Context(flags, Limit(60))

    def program(self, name, text):
        """A stand-in. Its time is up once it is `stuck`."""
        stuck = f"touch {self.folder}/is_stuck; exec sleep 60"
        put_script(os.path.join(self.folder, name), f"stuck() {{ {stuck}; }}\n{text}")

    def put(self, name, result):
        self.put_kept.append((name, json.loads(json.dumps(result))))

    def run(self, name):
        self.context.whole = Limit(60)
        threading.Thread(target=self.end_when_stuck, args=[self.context.whole], daemon=True).start()
        return run_part(next(part for part in parts.PARTS if part.name == name), self.context, self)

    def end_when_stuck(self, limit):
        mark = os.path.join(self.folder, "is_stuck")
        while limit.left() > 0:
            if os.path.exists(mark):
                os.remove(mark)
                limit.end_now()
            time.sleep(0.02)


def h200():
    """As a run on a GPU writes it; the figures are made up."""
    load = {"between_tokens_ms": {"p50": 4.0}, "first_token_ms": {"p50": 70.0}, "generated_tokens": 256000,
            "wall_seconds": 30.0}
    return {"format": 1, "device": "cuda:0", "date": "2026-01-02", "parts": {
        "machine": {"state": "passed", "figures": {"ceilings": {
            "gpu": "NVIDIA H200", "copy_bytes_per_second": 4.3e12,
            "bf16_operations_per_second": {"8192x8192x8192": 7.9e14, "2048x28672x4096": 7e14}}}},
        "kernels": {"state": "passed", "figures": {"programs": 13, "passed": 200, "skipped": 3}},
        "ranks": {"state": "failed", "why": "--tp 4: other | tokens"},
        "speed": {"state": "passed", "figures": {
            "decode 1": load, "decode 64": load, "prefill": load, "256 streams": load, "first_token_seconds": 16.0,
            "arithmetic": ["cuda/mma v1, weights BF16"]}},
        "fp8-speed": {"state": "passed", "figures": {"decode 1": load, "256 streams": load}},
        "kernel-speed": {"state": "passed", "figures": {"kernels": [
            {"kernel": "attention BF16 32 x T 1 at 8192", "seconds": 3e-4, "bytes": 1.0737e9, "operations": 4.3e9}]}}}}
