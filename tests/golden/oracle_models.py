"""Random tiny models and their exact logits, made while a test runs.

    oracle_models.py ORACLE OUT PRESET:DTYPE[:SHARDS] ...
    oracle_models.py ORACLE --list PREFIX      # presets without RoPE scaling, one per line

ORACLE is the folder of the NumPy oracle. Writes OUT/PRESET-DTYPE/ with config.json, weights, ids.i32 (token ids) and
logits.f64 (a row of vocabulary size for every id), both raw and little-endian.
"""
import os
import sys

import numpy as np

LENGTH = 130  # tokens: more than eight blocks of 16 positions, and not a multiple of any


def main():
    oracle, out, *rest = sys.argv[1:]
    sys.path.insert(0, oracle)
    import decoder
    import make_tiny_model

    if out == "--list":
        scaled = ("rope_scaling", "rope_parameters")
        print("\n".join(name for name, preset in make_tiny_model.PRESETS.items()
                        if name.startswith(rest[0]) and not any(key in preset for key in scaled)))
        return
    for item in rest:
        preset, dtype, shards = (item.split(":") + ["1"])[:3]
        folder = os.path.join(out, f"{preset}-{dtype}")
        config = make_tiny_model.write_model(folder, preset, dtype, int(shards), seed=len(preset))
        ids = np.random.default_rng(len(item)).integers(0, config["vocab_size"], LENGTH)
        ids.astype("<i4").tofile(os.path.join(folder, "ids.i32"))
        decoder.load(folder).logits(ids).astype("<f8").tofile(os.path.join(folder, "logits.f64"))


if __name__ == "__main__":
    main()
