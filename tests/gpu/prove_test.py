#!/usr/bin/env python3
"""The script that proves things on a GPU, where there is none: it must not fail on trifles once there is one.

Usage: prove_test.py BIN_DIR TEST_DIR [unittest arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gpu_report  # noqa: E402
import parts  # noqa: E402
from run import Failed, run  # noqa: E402

BIN, TESTS = sys.argv[1:3]


def prove(*flags):
    return subprocess.run([sys.executable, "-B", os.path.join(HERE, "prove.py"), "--bin", BIN, "--tests", TESTS, *flags],
                          capture_output=True, text=True, timeout=300)


class ProveTest(unittest.TestCase):
    def test_every_part_runs_on_a_cpu(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            # The tests are run by themselves.
            names = ",".join(part.name for part in parts.PARTS if part.name not in ("kernels", "models"))
            done = prove("--device", "cpu", "--out", path, "--minutes", "5", "--only", names, "--scratch", folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(path) as file:
                seen = json.load(file)
            states = {name: result["state"] for name, result in seen["parts"].items()}
            self.assertEqual(states.pop("sanitizer"), "skipped")
            self.assertEqual(set(states.values()), {"passed"}, done.stderr)
            self.assertIn("| ranks | passed |", gpu_report.markdown(seen))

    def test_what_is_wrong_is_told_and_does_not_stop_the_rest(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            done = prove("--device", "cpu", "--out", path, "--only", "ranks,errors", "--model", "/nowhere")
            self.assertEqual(done.returncode, 1, done.stderr)
            with open(path) as file:
                seen = json.load(file)["parts"]
            self.assertEqual(seen["ranks"]["state"], "failed")
            self.assertIn("/nowhere", seen["ranks"]["why"])

    def test_parts_that_no_time_is_left_for_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            done = prove("--device", "cpu", "--out", os.path.join(folder, "x"), "--minutes", "0.01", "--only", "ranks")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("0 passed, 0 failed, 1 skipped (ranks)", done.stdout)

    def test_a_run_keeps_what_others_have_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "seen.json")
            with open(path, "w") as file:
                json.dump({"format": 1, "device": "cpu", "parts": {"machine": {"state": "passed"}}}, file)
            prove("--device", "cpu", "--out", path, "--minutes", "0.01", "--only", "ranks")
            with open(path) as file:
                self.assertEqual(list(json.load(file)["parts"]), ["machine", "ranks"])


def put_script(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write("#!/bin/sh\n" + text)
    os.chmod(path, 0o755)


# Of a GPU that is not there: says what it was called with.
RECORDING_SLUICE = """echo "$*" >>{log}
case "$*" in
  "run hello"*) echo "no cuda:97, blocks would fit" >&2; exit 1 ;;
  run*) echo '{{"token_ids": [7], "logprobs": [-0.5]}}' ;;
  *) exit 1 ;;
esac
"""


class InstructionsTest(unittest.TestCase):
    def calls(self, *flags):
        """What the programs were called with, and what the others found in their environment."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            put_script(os.path.join(folder, "sluice"), RECORDING_SLUICE.format(log=log))
            for name in ("sluice-gpu-bench", "kernels_device_test"):
                put_script(os.path.join(folder, name), f"echo $SLUICE_TEST_DEVICE $SLUICE_TEST_GPU_INSTRUCTIONS >>{log}\n")
            path = os.path.join(folder, "seen.json")
            done = prove("--bin", folder, "--tests", folder, "--device", "cuda:0", "--out", path, "--only",
                         "kernels,ranks,errors,kernel-speed", *flags)
            with open(path) as file:
                parts = json.load(file)["parts"]
            with open(log) as file:
                return done, parts, file.read().splitlines()

    def test_whatever_computes_gets_them(self):
        done, parts, calls = self.calls("--gpu_instructions", "wgmma")
        self.assertEqual(calls.count("cuda:0 wgmma"), 2, done.stderr)
        computing = [call for call in calls if "--device cuda:0" in call]
        self.assertEqual({call.split()[0] for call in computing}, {"run", "up"}, done.stderr)
        for call in computing:
            self.assertIn("--gpu_instructions wgmma", call)
        self.assertEqual({part["gpu_instructions"] for part in parts.values()}, {"wgmma"})
        self.assertIn("| errors | passed, --gpu_instructions wgmma |", gpu_report.state_table({"parts": parts}))

    def test_by_itself_each_takes_the_fastest(self):
        done, parts, calls = self.calls()
        self.assertEqual(calls.count("cuda:0 auto"), 2, done.stderr)
        self.assertNotIn("gpu_instructions", " ".join(calls))
        self.assertNotIn("gpu_instructions", json.dumps(parts))

    def test_others_are_refused(self):
        done = prove("--device", "cuda:0", "--gpu_instructions", "mmx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'auto', 'mma', 'wgmma', 'wgmma_pipeline'", done.stderr)
        done = prove("--device", "cpu", "--gpu_instructions", "mma")
        self.assertIn("--gpu_instructions is for a GPU", done.stderr)


class RunTest(unittest.TestCase):
    def test_a_program_that_fails_says_its_last_words(self):
        with self.assertRaisesRegex(Failed, "ended with 3: the end"):
            run(["/bin/sh", "-c", "echo the end >&2; exit 3"], 10)
        with self.assertRaisesRegex(Failed, "took more than"):
            run(["/bin/sh", "-c", "exec sleep 20"], 1)
        with self.assertRaisesRegex(Failed, "/no/program"):
            run(["/no/program"], 1)


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


class ReportTest(unittest.TestCase):
    def test_a_row_says_what_was_reached_of_what(self):
        rows = {row[0]: row for row in gpu_report.speed_rows(h200())}
        self.assertEqual(rows["decode, batch 1, context 1k"][1:], ("3.52 ms", "4.00 ms (88%)", "4.2 ms", True))
        self.assertEqual(rows["prefill of 2,048"][1:], ("36.2 ms", "70.0 ms (52%)", "60%", False))
        self.assertEqual(rows["256 streams, 1,000 in and 1,000 out"][2:], ("8,533 tok/s", "8,000 tok/s", True))
        self.assertEqual(rows["decode in FP8, batch 1, context 1k"][1], "1.87 ms")
        self.assertEqual(rows["256 streams in FP8, 1,000 in and 1,000 out"][2:], ("8,533 tok/s", "14,000 tok/s", False))
        self.assertEqual(rows["first token after start, weights in the page cache"][4], False)
        self.assertEqual(rows["decode attention, batch 32, context 8k"][2:], ("3.58 TB/s (83%)", "80%", True))

    def test_what_failed_is_in_the_table(self):
        text = gpu_report.markdown(h200())
        self.assertIn("NVIDIA H200, 2026-01-02; copies 4.30 TB/s, cuBLASLt's best product 790 TFLOP/s", text)
        self.assertIn("| ranks | failed | --tp 4: other / tokens |", text)
        self.assertIn("| kernels | passed | 200 cases, 3 skipped |", text)

    def test_the_page_has_a_place_for_it(self):
        with open(os.path.join(HERE, "..", "..", "docs", "performance.md")) as file:
            document = file.read()
        self.assertLess(document.index(gpu_report.BEGIN), document.index(gpu_report.END))

    def test_figures_of_a_part_that_failed_are_not_shown(self):
        seen = h200()
        seen["parts"]["speed"]["state"] = "failed"
        self.assertNotIn("decode, batch 1", gpu_report.markdown(seen))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
