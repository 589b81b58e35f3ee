"""Who may kill processes by the page of a demonstration: who knows its token, from the page's own origin.

Usage: demo_test.py BIN_DIR [unittest arguments]
"""

import os
import subprocess
import sys
import unittest

from served import Served, call

BIN = sys.argv[1]
# Of the function that kills.
REFUSAL = b"no stage or tokenizer of this pipeline listens at"
served = None


def setUpModule():
    global served
    served = Served(BIN, "--demo")


def tearDownModule():
    served.stop()


def kill(address, token=None, **headers):
    token = served.demo_token if token is None else token
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    return call(served.address, "POST", "/page/kill", {"address": address}, {"x-sluice-demo-token": token, **headers})


def processes():
    return call(served.address, "GET", "/page/status").json["processes"]


class DemoTest(unittest.TestCase):
    def test_a_kill_needs_the_token(self):
        embedding = next(p for p in processes() if p["service"] == "embedding")["address"]
        epoch = served.status()["epoch"]
        for token in ("", "x", served.demo_token[:-1], served.demo_token + "0"):
            refused = kill(embedding, token)
            self.assertEqual(refused.status, 403, refused.text)
            self.assertIn("x-sluice-demo-token", refused.error["message"])
        self.assertEqual(served.status()["epoch"], epoch)
        self.assertEqual(len(served.demo_token), 32)

    def test_a_kill_needs_the_pages_own_origin(self):
        for origin in ("http://evil.example", "null", f"http://{served.address}.evil.example", ""):
            refused = kill("unix:/none", origin=origin)
            self.assertEqual(refused.status, 403, origin)
        self.assertEqual(kill("unix:/none", origin=f"http://{served.address}").status, 404)

    def test_only_stages_and_tokenizers_of_this_pipeline_are_killed(self):
        with open(f"/proc/{served.process.pid}/cmdline", "rb") as file:
            self.assertIn(b"up", file.read())
        for address in (served.endpoint, served.address, "127.0.0.1:1", ""):
            refused = kill(address)
            self.assertEqual(refused.status, 404, address)

    def test_a_killed_stage_comes_back(self):
        embedding = next(p for p in processes() if p["service"] == "embedding")["address"]
        before = served.status()["num_recoveries"]
        self.assertEqual(kill(embedding).json, {"killed": True})
        answer = call(served.address, "POST", "/v1/completions", {"prompt": "Once", "max_tokens": 4})
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(served.status()["num_recoveries"], before + 1)

    def test_the_gateway_without_a_demonstration_has_none_of_it(self):
        def program(name):
            with open(os.path.join(BIN, name), "rb") as file:
                return file.read()
        self.assertIn(REFUSAL, program("sluice-gateway-demo"))
        self.assertNotIn(REFUSAL, program("sluice-gateway"))
        done = subprocess.run([os.path.join(BIN, "sluice-gateway"), "--demo_token_file", "x"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown flag --demo_token_file", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
