#!/usr/bin/env python3
"""Holds waits with a timeout to the steady clock, which nobody sets.

Abseil's waits with a deadline or a timeout sleep until a time of the wall clock: one that is set back prolongs them. What
waits for a time in a service or a client does so on std::condition_variable, by std::chrono::steady_clock.
"""

import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("kernels", "services", "orchestrator", "clients")
WALL_CLOCK = re.compile(
    r"\b(AwaitWithDeadline|AwaitWithTimeout|LockWhenWithDeadline|LockWhenWithTimeout|WaitWithDeadline|WaitWithTimeout"
    r"|WaitForNotificationWithDeadline|WaitForNotificationWithTimeout)\b"
    r"|\bwait_until\([^;]*system_clock|\bwait_for\(")
KEPT_DEADLINE = re.compile(
    r"\bset_deadline\((?!\s*(absl::ToChronoTime\(\s*absl::Now\(\) \+|std::chrono::system_clock::now\(\) \+))"
    r"|\babsl::Time (deadline|until|due)\b")


def waits_in(text):
    """The lines of a source that wait by the wall clock, or keep a deadline by it, counted from 1."""
    found = [match.start() for kind in (WALL_CLOCK, KEPT_DEADLINE) for match in kind.finditer(text)]
    return sorted({text.count("\n", 0, place) + 1 for place in found})


class ClocksTest(unittest.TestCase):
    def test_finds_waits_by_the_wall_clock(self):
        self.assertEqual(waits_in("a;\nmutex_.AwaitWithTimeout(condition, time);\n"), [2])
        self.assertEqual(waits_in("changed_.wait_for(lock, time);"), [1])
        self.assertEqual(waits_in("changed_.wait_until(lock, until.ToChrono(), done);"), [])

    def test_finds_deadlines_that_are_kept(self):
        self.assertEqual(waits_in("call.set_deadline(absl::ToChronoTime(deadline_));"), [1])
        self.assertEqual(waits_in("a;\nvoid Ask(absl::Time deadline);"), [2])
        self.assertEqual(waits_in("call.set_deadline(\n  absl::ToChronoTime(absl::Now() + left));"), [])

    def test_sources_wait_by_the_steady_clock(self):
        found = []
        for folder in FOLDERS:
            for source in sorted((ROOT / folder).rglob("*")):
                if source.suffix in (".h", ".cc"):
                    found += [f"{source.relative_to(ROOT)}:{line}" for line in waits_in(source.read_text())]
        self.assertEqual(found, [])


if __name__ == "__main__":
    sys.exit(unittest.main())
