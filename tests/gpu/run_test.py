#!/usr/bin/env python3
"""Programs within a time, whose last words are kept."""

import os
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from run import CutShort, Failed, Limit, Up, json_lines, run  # noqa: E402
from stand_ins import is_running, put_script  # noqa: E402


class RunTest(unittest.TestCase):
    def test_a_program_that_fails_says_its_last_words(self):
        with self.assertRaisesRegex(Failed, "ended with 3: the end"):
            run(["/bin/sh", "-c", "echo the end >&2; exit 3"], Limit(10))
        with self.assertRaisesRegex(Failed, "/no/program"):
            run(["/no/program"], Limit(10))

    def test_what_was_written_till_the_time_was_up_is_kept_and_nothing_goes_on(self):
        seen = []
        with self.assertRaisesRegex(CutShort, "sh was cut off after .* s: half way"):
            run(["/bin/sh", "-c", "sleep 60 & echo $!; echo half way >&2; wait"], Limit(0.5), seen=seen.append)
        self.assertFalse(is_running(int(seen[0])))

    def test_what_a_program_wrote_before_it_failed_is_kept(self):
        seen = []
        with self.assertRaises(Failed):
            run(["/bin/sh", "-c", "echo before; exit 3"], Limit(10), seen=seen.append)
        self.assertEqual(seen, ["before\n"])

    def test_a_limit_can_be_brought_forward(self):
        whole = Limit(60)
        threading.Timer(0.3, whole.end_now).start()
        begin = time.monotonic()
        with self.assertRaises(CutShort):
            run(["/bin/sh", "-c", "exec sleep 60"], Limit(60, whole))
        self.assertLess(time.monotonic() - begin, 30)
        with self.assertRaisesRegex(CutShort, "no time was left for sh"):
            run(["/bin/sh"], whole)

    def test_a_line_that_was_not_ended_is_left_out(self):
        self.assertEqual(json_lines('{"a": 1}\nwords\n{"a": 2}\n{"a": '), [{"a": 1}, {"a": 2}])

    def test_services_that_are_not_ready_in_time_are_not_a_failure(self):
        with tempfile.TemporaryDirectory() as folder:
            put_script(os.path.join(folder, "sluice"), "echo thinking >&2; exec sleep 60\n")
            with self.assertRaisesRegex(CutShort, "not ready after .*: thinking"):
                Up(folder, [], Limit(0.5))
            put_script(os.path.join(folder, "sluice"), "echo no >&2; exit 1\n")
            with self.assertRaisesRegex(Failed, "not ready after .*: no"):
                Up(folder, [], Limit(60))


if __name__ == "__main__":
    unittest.main()
