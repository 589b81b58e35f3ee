"""Random tiny models and their exact logits, made while a test runs.

    oracle_models.py ORACLE OUT PRESET:DTYPE[:SHARDS] ...
    oracle_models.py ORACLE --list             # presets, one per line

ORACLE is the folder of the NumPy oracle. Writes OUT/PRESET-DTYPE/ with config.json, weights, ids.i32 (token ids),
logits.f64 (a row of vocabulary size for every id) and, where a sequence's length decides how its positions turn,
prefixes.f64 (for every prefix of the ids the last row of its own logits), all raw and little-endian.
"""
import os
import sys

import numpy as np

LENGTH = 130  # tokens: more than eight blocks of 16 positions, and not a multiple of any


def longest(config):
    """Tokens that a model may see: dynamic scaling stretches max_position_embeddings by its factor."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "dynamic":
        return int(config["max_position_embeddings"] * scaling["factor"])
    return LENGTH


def main():
    oracle, out, *rest = sys.argv[1:]
    sys.path.insert(0, oracle)
    import decoder
    import make_tiny_model

    if out == "--list":
        print("\n".join(make_tiny_model.PRESETS))
        return
    for item in rest:
        preset, dtype, shards = (item.split(":") + ["1"])[:3]
        folder = os.path.join(out, f"{preset}-{dtype}")
        config = make_tiny_model.write_model(folder, preset, dtype, int(shards), seed=len(preset))
        length = min(LENGTH, longest(config))
        ids = np.random.default_rng(len(item)).integers(0, config["vocab_size"], length)
        ids.astype("<i4").tofile(os.path.join(folder, "ids.i32"))
        model = decoder.load(folder)
        model.logits(ids).astype("<f8").tofile(os.path.join(folder, "logits.f64"))
        if model.rope is not None and model.rope.depends_on_length:
            rows = [model.logits(ids[:n + 1])[-1] for n in range(length)]
            np.stack(rows).astype("<f8").tofile(os.path.join(folder, "prefixes.f64"))


if __name__ == "__main__":
    main()
