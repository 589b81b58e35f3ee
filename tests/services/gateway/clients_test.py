"""Other people's clients, unchanged, against a live pipeline: those of npm that npm/package.json pins.

Usage: clients_test.py BIN_DIR [unittest arguments]
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from served import Served

BIN = sys.argv[1]
NPM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "npm")
served = None
folder = tempfile.TemporaryDirectory()  # of batches


def setUpModule():
    global served
    served = Served(BIN, "--demo", "--batch_dir", os.path.join(folder.name, "batches"))


def tearDownModule():
    served.stop()
    folder.cleanup()


class NpmTest(unittest.TestCase):
    def run_file(self, name):
        done = subprocess.run(["node", "--test", f"{name}.test.js"], cwd=NPM, capture_output=True, text=True, timeout=300,
                              env={**os.environ, "SLUICE_GATEWAY": served.address,
                                   "SLUICE_DEMO_TOKEN": served.demo_token})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_openai(self):
        self.run_file("openai")

    def test_anthropic(self):
        self.run_file("anthropic")

    def test_ai(self):
        self.run_file("ai")

    def test_langchain(self):
        self.run_file("langchain")


if __name__ == "__main__":
    if not shutil.which("node") or not os.path.isdir(os.path.join(NPM, "node_modules")):
        print("skipped: the clients are not installed: ./dev setup clients")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
