#!/usr/bin/env python3
"""The script of a session with a GPU, where there is none: the very steps, with small models, and what ends it early.

Usage: session_test.py BUILD_DIR [unittest arguments]
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = sys.argv.pop(1)


def session(folder, *arguments):
    return subprocess.run([os.path.join(HERE, "session.sh"), "--out", folder, "--large_model", os.path.join(folder, "model"),
                           *arguments], capture_output=True, text=True, timeout=400,
                          env={**os.environ, "SLUICE_BUILD": BUILD})


def said(folder):
    with open(os.path.join(folder, "session.txt")) as file:
        return dict(line.strip().split(": ", 1) for line in file if ": " in line)


class SessionTest(unittest.TestCase):
    def test_every_step_that_a_cpu_can_take(self):
        with tempfile.TemporaryDirectory() as folder:
            done = session(folder, "--device", "cpu", "--seconds", "380", "dry")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            steps = said(folder)
            for name in ("facts", "unpack", "products", "tuning", "speed"):
                self.assertRegex(steps[name], "^done after", done.stdout)
                self.assertTrue(os.path.exists(os.path.join(folder, f"{name}.log")))
            with open(os.path.join(folder, "gpu-prove.json")) as file:
                seen = json.load(file)["parts"]
            self.assertEqual({name: seen[name]["state"] for name in ("products", "errors", "one-process")},
                             {"products": "skipped", "errors": "passed", "one-process": "passed"})
            # The model stays for the second command.
            self.assertTrue(os.path.isdir(os.path.join(folder, "model")))

    def test_ends_within_its_time(self):
        with tempfile.TemporaryDirectory() as folder:
            done = session(folder, "--device", "cpu", "--seconds", "1", "dry")
            self.assertIn("no time was left", done.stdout)

    def test_a_machine_without_a_gpu_is_looked_at_more_closely_and_no_more(self):
        with tempfile.TemporaryDirectory() as folder:
            done = session(folder, "--device", "cuda:0", "--seconds", "60", "first")
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("no way to multiply is right", done.stdout)
            self.assertNotIn("kernel-speed", said(folder))

    def test_what_it_does_not_know_is_refused(self):
        done = session("/tmp", "third")
        self.assertEqual(done.returncode, 2)
        self.assertIn('"third"; accepted:', done.stderr)


if __name__ == "__main__":
    unittest.main()
