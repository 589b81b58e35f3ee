"""Figures computed from the NumPy oracle, small enough to live beside the tests that read them.

    /usr/bin/python3 tests/golden/make_goldens.py                   # all of them
    /usr/bin/python3 tests/golden/make_goldens.py storyteller       # after the embedded model has changed

Reads the oracle below $SLUICE_TESTDATA (default ../shared beside the checkout) and writes NAME.json beside this script
for each NAME of MAKERS. The same inputs give the same bytes.
"""
import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
PROJECT = os.path.dirname(os.path.dirname(HERE))
ORACLE = os.path.join(os.environ.get("SLUICE_TESTDATA") or os.path.join(PROJECT, "..", "shared"), "oracle")
sys.path.insert(0, ORACLE)
import decoder
import generate


def f32(values):
    """Rounded to float32."""
    return np.asarray(values, np.float32).astype(np.float64)


def shortest(values):
    """Decimals, as few digits as name the float32 numbers `values`."""
    return [float(str(np.float32(value))) for value in values]


def rounded(values, digits):
    return [round(float(value), digits) for value in values]


# ---------------------------------------------------------------- textbook examples

EXAMPLES = ("rope_6d_t100", "rope_relative_distance", "rope_angle_visualizer", "nucleus", "perplexity_of_three_bits")


def worked_examples():
    """The textbook examples that touch more than one kernel operation, by id."""
    with open(os.path.join(ORACLE, "worked_examples.json")) as file:
        cases = {case["id"]: case for case in json.load(file)["cases"]}
    return {name: {key: cases[name][key] for key in ("inputs", "expected", "tolerance")} for name in EXAMPLES}


# ---------------------------------------------------------------- sampling

def logit_rows():
    random = np.random.default_rng(2024)
    ties = np.repeat([3.0, 1.5, 1.5, 0.0, -2.0], 3)
    random.shuffle(ties)
    return {
        "random": f32(random.normal(0.0, 2.5, 40)),
        "ties": f32(ties),
        "even": f32(np.full(8, -1.25)),
        "peaked": f32(np.append(random.normal(0.0, 1.0, 30), 30.0)),
        "large": f32(random.normal(200.0, 40.0, 24)),   # exponentials would overflow if not shifted
        "wide": f32(random.normal(0.0, 1.5, 400)),      # the nucleus is larger than any small constant
        "one": f32([0.5]),
    }


SETTINGS = [  # temperature, top_k, top_p
    (0.0, 0, 1.0), (0.0, 5, 0.5), (1.0, 0, 1.0), (0.25, 0, 1.0), (0.7, 0, 1.0), (1.5, 0, 1.0), (1e-6, 0, 1.0),
    (1.0, 1, 1.0), (1.0, 4, 1.0), (0.7, 5, 1.0), (1.0, 100000, 1.0),
    (1.0, 0, 0.9), (1.0, 0, 0.5), (1.0, 0, 0.05), (1.0, 0, 1e-6), (1.0, 0, 0.999),
    (0.7, 20, 0.9), (1.3, 6, 0.6), (2.0, 3, 0.8),
]


def sampling_distributions():
    """Logits, and for every setting the tokens that are left with their probabilities."""
    rows, cases = logit_rows(), []
    for name, logits in rows.items():
        for temperature, top_k, top_p in SETTINGS:
            temperature, top_p = float(f32(temperature)), float(f32(top_p))
            if name == "wide" and top_p == 1.0:
                continue
            exact = generate.distribution(logits, temperature=temperature, top_k=top_k, top_p=top_p)
            kept = np.flatnonzero(exact)
            cases.append({"logits": name, "temperature": temperature, "top_k": top_k, "top_p": top_p,
                          "ids": kept.tolist(), "probabilities": [float(f"{p:.15g}") for p in exact[kept]]})
    return {"logits": {name: shortest(row) for name, row in rows.items()}, "cases": cases}


# ---------------------------------------------------------------- the embedded model

def storyteller():
    """Token ids, and after each the largest logits, a few others and the log of the sum of exponentials."""
    folder = os.path.join(PROJECT, "models", "storyteller")
    model = decoder.load(folder)
    vocab = len(model.embedding)
    prompt = np.random.default_rng(1).integers(0, vocab, 8).tolist()
    ids = prompt + generate.greedy(model, prompt, 24)
    logits = model.logits(ids)
    probe = np.random.default_rng(2).integers(0, vocab, 12)
    ordered = np.sort(logits, axis=1)
    return {
        "ids": ids,
        "prompt_length": len(prompt),
        "probe_ids": probe.tolist(),
        "probe_logits": [rounded(row[probe], 9) for row in logits],
        "best_ids": np.argmax(logits, axis=1).tolist(),
        "best_logits": rounded(ordered[:, -1], 9),
        "gaps": rounded(ordered[:, -1] - ordered[:, -2], 9),     # between the two largest
        "standard_deviations": rounded(logits.std(axis=1), 6),
        "logprobs": rounded(generate.token_logprobs(model, ids), 9),   # of ids[1:]
        "perplexity": round(generate.perplexity(model, ids), 9),
    }


MAKERS = {"worked_examples": worked_examples, "sampling_distributions": sampling_distributions,
          "storyteller": storyteller}


def main():
    for name in sys.argv[1:] or MAKERS:
        if name not in MAKERS:
            sys.exit(f"no golden {name!r}; there are {', '.join(MAKERS)}")
        text = json.dumps(MAKERS[name](), separators=(",", ":")).replace("},{", "},\n{").replace("],[", "],\n[")
        with open(os.path.join(HERE, name + ".json"), "w") as file:
            file.write(text + "\n")


if __name__ == "__main__":
    main()
