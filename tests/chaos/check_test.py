"""The checker finds what is planted in a history, and nothing in one that is right."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")


def call(number, begun, tokens, gap=0.01, text="ab"):
    events = [{"t": begun, "event": "begin", "call": number, "request": "greedy"}]
    for i, token in enumerate(tokens):
        events.append({"t": begun + gap * (i + 1), "event": "chunk", "call": number, "sequence": 0, "tokens": [token],
                       "text": text})
    end = events[-1]["t"]
    return events + [{"t": end, "event": "finished", "call": number, "reasons": [[3, "", len(tokens)]]},
                     {"t": end, "event": "end", "call": number, "status": "OK"}]


def history(calls, used_blocks=0, kind="SIGKILL"):
    events = [{"t": 0, "event": "run", "minutes": 1, "hang_timeout": 2}, {"t": 0, "event": "undisturbed"},
              *call(1, 0, [5, 6, 7]), {"t": 1, "event": "disturbed"}]
    events += [{"t": 1 + i, "event": "fault", "kind": kind, "process": "sampler", "pid": 1} for i in range(12)]
    for events_of_call in calls:
        events += events_of_call
    return events + [{"t": 99, "event": "status", "serving": True, "used_blocks": used_blocks, "running": 0,
                      "waiting": 0}]


def right(count=12):
    return [call(2 + i, 20 + i, [5, 6, 7]) for i in range(count)]


class CheckTest(unittest.TestCase):
    def check(self, events):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.writelines(json.dumps(event) + "\n" for event in events)
            file.flush()
            done = subprocess.run([sys.executable, "-B", CHECK, file.name], capture_output=True, text=True)
            return done.returncode, done.stdout

    def expect_wrong(self, events, part):
        code, out = self.check(events)
        self.assertEqual(code, 1, out)
        self.assertIn(part, out)

    def test_what_is_right_passes(self):
        code, out = self.check(history(right()))
        self.assertEqual(code, 0, out)

    def test_another_token(self):
        self.expect_wrong(history(right() + [call(50, 40, [5, 6, 8])]), "call 50 (greedy) got tokens")

    def test_a_repeated_token(self):
        self.expect_wrong(history(right() + [call(50, 40, [5, 6, 6, 7])]), "call 50 (greedy) got tokens")

    def test_lost_text(self):
        self.expect_wrong(history(right() + [call(50, 40, [5, 6, 7], text="a")]), "call 50 (greedy) got text")

    def test_a_call_that_does_not_end(self):
        self.expect_wrong(history(right() + [call(50, 40, [5, 6, 7])[:-1]]), "call 50 (greedy) never ended")

    def test_a_call_that_fails(self):
        failed = call(50, 40, [5, 6, 7])
        failed[-1]["status"] = "INTERNAL"
        self.expect_wrong(history(right() + [failed]), "call 50 (greedy) ended INTERNAL")

    def test_a_leaked_block(self):
        self.expect_wrong(history(right(), used_blocks=1), "left over")

    def test_long_pauses(self):
        slow = [call(50 + i, 12, [5, 6, 7], gap=4) for i in range(12)]
        for events in slow:
            events[0]["t"] = 11.5  # before the last fault
        self.expect_wrong(history(right() + slow), "pauses after kills")
        code, out = self.check(history(right() + slow, kind="SIGSTOP"))
        self.assertEqual(code, 0, out)

    def test_too_little(self):
        self.expect_wrong(history(right(3)), "too little happened")


if __name__ == "__main__":
    unittest.main()
