#!/usr/bin/env python3
"""The pipeline against exact arithmetic, without the oracle: `sluice score` of a small model of
every family (families/), against the logits that the NumPy oracle computed of it in float64.

Usage: families_test.py BIN_DIR [unittest arguments]
"""

import array
import json
import math
import os
import subprocess
import sys
import unittest

BIN = None  # the folder with the programs
FAMILIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families")
MOST_TOP = 20  # of sluice score
# Weights are BF16 numbers, and all arithmetic is F32.
LARGEST_ERROR = 1e-4


def read(family, name, kind):
    values = array.array(kind)
    with open(os.path.join(FAMILIES, family, name), "rb") as file:
        values.frombytes(file.read())
    if sys.byteorder == "big":
        values.byteswap()
    return values.tolist()


def log_probabilities(logits):
    largest = max(logits)
    total = largest + math.log(sum(math.exp(logit - largest) for logit in logits))
    return [logit - total for logit in logits]


def expected(family):
    """(token ids, for each the log-probability of every token after it)."""
    ids, logits = read(family, "ids.i32", "i"), read(family, "logits.f64", "d")
    size = len(logits) // len(ids)
    return ids, [log_probabilities(logits[row * size:(row + 1) * size]) for row in range(len(ids))]


def score(family, ids, *flags):
    done = subprocess.run(
        [os.path.join(BIN, "sluice"), "score", "--model", os.path.join(FAMILIES, family),
         "--token_ids", ",".join(map(str, ids)), "--weights", "f32", "--top", str(MOST_TOP),
         "--json", *flags],
        capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"{family}: {done.stderr}")
    return json.loads(done.stdout)


class FamiliesTest(unittest.TestCase):
    def near(self, actual, exact):
        self.assertAlmostEqual(actual, exact, delta=LARGEST_ERROR)

    def hold(self, family, *flags):
        """Every token's log-probability, and those of the most probable in its place."""
        ids, rows = expected(family)
        scored = score(family, ids, *flags)
        self.assertEqual(scored["token_ids"], ids)
        for position in range(1, len(ids)):
            exact = rows[position - 1]
            self.near(scored["logprobs"][position], exact[ids[position]])
            top = scored["top"][position]
            self.assertEqual(len(top), MOST_TOP)
            for index, entry in enumerate(top):
                self.near(entry["logprob"], exact[entry["token_id"]])
                self.near(entry["logprob"], sorted(exact)[-1 - index])

    def test_every_family_agrees(self):
        families = sorted(os.listdir(FAMILIES))
        self.assertGreaterEqual(len(families), 26)
        for family in families:
            with self.subTest(family=family):
                self.hold(family)

    def test_stages_agree(self):
        for family in ("gpt2", "llama"):
            with self.subTest(family=family):
                self.hold(family, "--pp", "2")

    def test_another_model_does_not(self):
        ids, rows = expected("llama")
        scored = score("llama3-rope", ids)
        errors = [abs(scored["logprobs"][i] - rows[i - 1][ids[i]]) for i in range(1, len(ids))]
        self.assertGreater(max(errors), 1000 * LARGEST_ERROR)


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main(verbosity=2)
