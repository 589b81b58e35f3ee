#!/usr/bin/env python3
"""The script that proves things on a GPU, where there is none: it must not fail on trifles once there is one.

Usage: prove_test.py BIN_DIR TEST_DIR [unittest arguments]
"""

import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import gpu_report  # noqa: E402
import parts  # noqa: E402
from prove import chosen_parts, parse_flags, run_part, summary  # noqa: E402
from run import KILL_SECONDS, STOP_SECONDS, Limit  # noqa: E402
from stand_ins import Parts, put_script  # noqa: E402

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
            self.assertEqual([states.pop(name) for name in ("products", "sanitizer")], 2 * ["skipped"])
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
            prove("--device", "cpu", "--out", path, "--minutes", "0.01", "--only", "machine")
            with open(path) as file:
                self.assertEqual(json.load(file)["parts"]["machine"], {"state": "passed"})


# Of a GPU that is not there: says what it was called with.
RECORDING_SLUICE = """echo "$*" >>{log}
case "$*" in
  "run hello"*) echo "no cuda:97, blocks would fit" >&2; exit 1 ;;
  run*) echo '{{"token_ids": [7], "logprobs": [-0.5]}}' ;;
  *) exit 1 ;;
esac
"""


class InstructionsTest(unittest.TestCase):
    def calls(self, *flags, seen=None):
        """What the programs were called with, and what the others found in their environment."""
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            put_script(os.path.join(folder, "sluice"), RECORDING_SLUICE.format(log=log))
            for name in ("sluice-gpu-bench", "kernels_device_test"):
                put_script(os.path.join(folder, name), f"echo $SLUICE_TEST_DEVICE $SLUICE_TEST_GPU_INSTRUCTIONS >>{log}\n")
            path = os.path.join(folder, "seen.json")
            if seen is not None:
                with open(path, "w") as file:
                    json.dump({"format": 1, "device": "cuda:0", "parts": seen}, file)
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

    def test_a_run_goes_on_without_those_that_one_before_it_found_bad(self):
        done, parts, calls = self.calls(seen={"products": {"state": "failed", "figures": {"instructions": "mma"}}})
        self.assertEqual(calls.count("cuda:0 mma"), 2, done.stderr)
        self.assertEqual(parts["ranks"]["gpu_instructions"], "mma")
        _, parts, _ = self.calls("--gpu_instructions", "wgmma",
                                 seen={"products": {"state": "failed", "figures": {"instructions": "mma"}}})
        self.assertEqual(parts["ranks"]["gpu_instructions"], "wgmma")

    def test_by_itself_each_takes_the_fastest(self):
        done, parts, calls = self.calls()
        self.assertEqual(calls.count("cuda:0 auto"), 2, done.stderr)
        self.assertNotIn("gpu_instructions", " ".join(calls))
        self.assertNotIn("gpu_instructions", json.dumps(parts))

    def test_others_are_refused(self):
        done = prove("--device", "cuda:0", "--gpu_instructions", "mmx")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'auto', 'mma', 'wgmma', 'wgmma_pipeline', 'wgmma_fp8'", done.stderr)
        done = prove("--device", "cpu", "--gpu_instructions", "mma")
        self.assertIn("--gpu_instructions is for a GPU", done.stderr)


class ChoiceTest(unittest.TestCase):
    def test_a_name_chooses_its_part_and_any_other_word_those_that_contain_it(self):
        def names(only):
            return [part.name for part in chosen_parts(only)]

        self.assertEqual(names("death,fp8"), ["fp8", "death"])  # and not the one that needs a model of 16 GB
        self.assertEqual(names("peed"), ["speed", "fp8-speed", "kernel-speed"])
        self.assertEqual(names("speed,"), ["speed"])
        self.assertEqual(names("nothing"), [])
        self.assertEqual(names(""), [part.name for part in parts.PARTS])


class TimeTest(unittest.TestCase):
    def test_a_run_of_all_is_over_within_ten_minutes(self):
        with unittest.mock.patch.object(sys, "argv", ["gpu-prove"]):
            seconds = 60 * parse_flags().minutes
        # The last program is killed, the services stop or are killed, and before all that the bundle was unpacked.
        self.assertLessEqual(seconds + KILL_SECONDS + STOP_SECONDS + KILL_SECONDS + 40, 600)
        self.assertLessEqual(max(part.most_seconds(True) for part in parts.PARTS), seconds)

    def test_parts_that_are_chosen_have_more_time(self):
        listed = {only: dict(re.findall(r"^(\S+) +(\d+) s", prove("--list", "--only", only).stdout, re.MULTILINE))
                  for only in ("", "ranks,fp8,death")}
        for name, seconds in (("ranks", "90"), ("fp8", "60"), ("death", "60")):
            self.assertEqual((listed[""][name], listed["ranks,fp8,death"][name]), (seconds, "120"))

    def test_the_time_of_a_part_is_that_of_its_run(self):
        with tempfile.TemporaryDirectory() as folder:
            for only, least, most in (("", 50, 60), ("fp8", 110, 120)):
                stand_ins = Parts(folder)
                stand_ins.context.whole = Limit(1000)
                stand_ins.context.flags.only = only
                left = []
                part = next(part for part in parts.PARTS if part.name == "fp8")
                run_part(dataclasses.replace(part, run=lambda context: left.append(context.limit.left())),
                         stand_ins.context, stand_ins)
                self.assertTrue(least < left[0] <= most, left)


class SummaryTest(unittest.TestCase):
    def test_parts_that_were_not_shown_in_full_are_named(self):
        states = {"a": "passed", "b": "cut short", "c": "failed", "d": "skipped", "e": "passed"}
        self.assertEqual(summary({name: {"state": state} for name, state in states.items()}),
                         "2 passed, 1 failed, 1 cut short (b), 1 skipped (d)")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
