"""How long the page says that a killed process was away: recovery.js, run by Node.js with a clock of the test's own.

Usage: recovery_test.py [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import sys
import unittest

MODULE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "services", "gateway", "page", "assets",
                      "recovery.js")
# Each look takes 1 ms, each sleep what it is asked for; the last status stays.
SCRIPT = """
const source = await (await import("node:fs/promises")).readFile(process.argv[1], "utf8");
const {timeUntilBack} = await import("data:text/javascript," + encodeURIComponent(source));
const {before, looks} = JSON.parse(process.argv[2]);
let time = 100, at = 0;
const clock = {look: async () => { ++time; return looks[Math.min(at++, looks.length - 1)]; }, now: () => time,
  sleep: async (ms) => { time += ms; }};
console.log(JSON.stringify(await timeUntilBack("a", before, 100, clock)));
"""


def status(ready=True, serving=True, recoveries=0, address="a"):
    return {"serving": serving, "num_recoveries": recoveries, "processes": [{"address": address, "ready": ready}]}


def time_until_back(*looks):
    done = subprocess.run(["node", "--input-type=module", "-e", SCRIPT, MODULE,
                           json.dumps({"before": status(), "looks": looks})], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


class RecoveryTest(unittest.TestCase):
    def test_what_was_seen_to_be_away_is_back_once_it_serves(self):
        lost = status(ready=False, serving=False)
        self.assertEqual(time_until_back(status(), lost, status(serving=False), status(recoveries=1)), 4 + 3 * 10)

    def test_what_was_back_between_two_looks_is_known_by_the_recoveries(self):
        self.assertEqual(time_until_back(status(), status(recoveries=1)), 2 + 10)

    def test_a_tokenizer_is_no_recovery_but_is_seen(self):
        self.assertEqual(time_until_back(status(ready=False), None, status()), 3 + 2 * 10)

    def test_what_does_not_come_back_has_no_time(self):
        self.assertIsNone(time_until_back(status(ready=False, serving=False)))
        self.assertIsNone(time_until_back(status(recoveries=1, address="another")))


if __name__ == "__main__":
    if shutil.which("node") is None:
        print("node is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
