#!/usr/bin/env python3
"""Tests of what suite.py reads and selects."""

import sys
import unittest

import suite
from suite import Entry, read_record


def entry(name, *cases, labels=()):
    return Entry(name, [], {}, list(labels), "record" if cases else "", list(cases))


KILL, TIMES = "end_to_end_faults_test.test_kill", "load_test.test_times"
ENTRIES = [entry("rows_test", "Rows.Fit", "Rows.Grow", "Sizes/Ring.Wraps/0"),
           entry("rows_test.async", "Rows.Fit"), entry(KILL),
           entry(TIMES, labels=["end_to_end", "perf"])]


class SuiteTest(unittest.TestCase):
    def test_reads_the_names_of_cases(self):
        listed = ("Rows.\n  Fit\n  Grow\n"
                  "Sizes/Ring.  # TypeParam = int\n  Wraps/0  # GetParam() = 4\n")
        self.assertEqual(suite.parse_list(listed), ["Rows.Fit", "Rows.Grow", "Sizes/Ring.Wraps/0"])

    def test_selects_entries_by_name_and_cases_by_full_name(self):
        self.assertEqual(suite.select(ENTRIES, "^rows_test"),
                         {"rows_test": None, "rows_test.async": None})
        self.assertEqual(suite.select(ENTRIES, r"Rows\.Fit"),
                         {"rows_test": ["Rows.Fit"], "rows_test.async": ["Rows.Fit"]})
        self.assertEqual(suite.select(ENTRIES, "async.Rows"), {"rows_test.async": ["Rows.Fit"]})
        self.assertEqual(suite.select(ENTRIES, "Wraps/0$"), {"rows_test": ["Sizes/Ring.Wraps/0"]})
        self.assertEqual(suite.select(ENTRIES, "faults"), {KILL: None})
        self.assertEqual(suite.select(ENTRIES, "nothing"), {})

    def test_measuring_tests_run_only_where_nothing_else_is_meant(self):
        chosen = suite.select(ENTRIES, "test_")
        self.assertIn(TIMES, chosen)
        self.assertEqual(suite.without_perf(ENTRIES, chosen), {KILL: None})
        only = {TIMES: None}
        self.assertEqual(suite.without_perf(ENTRIES, only), only)

    def test_counts_what_a_program_recorded(self):
        outcome = read_record(["cases 4\n", "begin A.B\n", "passed 3\n",
                               "begin A.C\n", "failed 5\n", "begin A.D\n",
                               "skipped no GPU here\n", "begin A.E\n", "passed 0\n"])
        self.assertEqual((outcome.passed, outcome.failed), (2, ["A.C"]))
        self.assertEqual(outcome.skipped, {"A.D": "no GPU here"})
        self.assertEqual((outcome.running, outcome.not_run()), ("", 0))

    def test_names_the_case_that_ended_its_program_and_counts_those_after_it(self):
        outcome = read_record(["cases 4\n", "begin A.B\n", "passed 3\n", "begin A.C\n"])
        self.assertEqual((outcome.running, outcome.not_run()), ("A.C", 2))
        lines = suite.summarize({"a_test": outcome})
        self.assertIn("  a_test.A.C did not end", lines)
        self.assertEqual(lines[-1], "1 cases of 1 programs passed, 1 failed, 0 were skipped, "
                                    "2 did not run because their program ended before")

    def test_gives_the_reasons_of_skips(self):
        skips = read_record(["cases 2\n", "begin A.B\n", "skipped no GPU\n",
                             "begin A.C\n", "skipped no GPU\n"])
        alone = read_record(["cases 1\n", "begin D.E\n", "skipped no oracle\n"])
        lines = suite.summarize({"a_test": skips, "b_test": alone})
        self.assertEqual(lines, ["3 cases were skipped:",
                                 "      2 no GPU",
                                 "      1 no oracle (b_test.D.E)",
                                 "0 cases of 2 programs passed, 0 failed, 3 were skipped"])


if __name__ == "__main__":
    sys.exit(unittest.main())
