"""Random tiny models and their exact logits, made while a test runs.

    oracle_models.py ORACLE OUT PRESET[,FIELD=VALUE]...:DTYPE[:SHARDS[:METHOD[:[wide][:ADAPTER]]]] ...
    oracle_models.py ORACLE --keep FOLDER PRESET[,FIELD=VALUE]...:DTYPE[:SHARDS[:METHOD[:[wide][:ADAPTER]]]] ...
    oracle_models.py ORACLE --list             # presets, one per line

ORACLE is the folder of the NumPy oracle. Fields take the place of the preset's own. Writes OUT/PRESET-DTYPE[-SHARDS]/ with
config.json, weights, ids.i32 (token ids),
logits.f64 (a row of vocabulary size for every id) and, where a sequence's length decides how its positions turn,
prefixes.f64 (for every prefix of the ids the last row of its own logits), all raw and little-endian.

METHOD is one of the oracle's, in which projections are quantised, or with "@N" behind it the same in groups of N inputs.
A wide model has matrices that all can be cut into groups of 32 inputs, the larger ones of 128.

ADAPTER is one of ADAPTERS: then there are a PEFT folder `adapter`, `adapter2` with other numbers, and adapted.f64 and
adapted2.f64, the logits with each.

With --keep OUT is a folder in FOLDER, named after the scripts that make the models: it is printed, and models that are there
already are not made again. Several processes may do so at once.
"""
import hashlib
import json
import os
import random
import sys
import tempfile

LENGTH = 130  # tokens: more than eight blocks of 16 positions, and not a multiple of any


def longest(config):
    """Tokens that a model may see: dynamic scaling stretches max_position_embeddings by its factor."""
    scaling = config.get("rope_scaling") or {}
    if scaling.get("type") == "dynamic":
        return int(config["max_position_embeddings"] * scaling["factor"])
    return LENGTH


WIDE = {"hidden_size": 256, "intermediate_size": 1024, "head_dim": 64}


def regrouped(method):
    """The oracle's name of a method, which "@N" makes one of N inputs a group."""
    import quant_formats as formats
    name, _, size = method.partition("@")
    if not size:
        return name or None
    config, _ = formats.METHODS["gptq-3bit" if name == "gptq-2bit" else name]
    if name == "gptq-2bit":
        config = {**config, "bits": 2}
    group = int(size)
    parts = {
        "awq": lambda w: formats.AWQ.quantise(w, group),
        "gptq": lambda w: formats.GPTQ.quantise(w, group),
        "gptq-act_order": lambda w: formats.GPTQ.quantise(w, group, 4, False, formats.any_order(w)),
        "gptq-8bit": lambda w: formats.GPTQ.quantise(w, group, 8),
        "gptq-3bit": lambda w: formats.GPTQ.quantise(w, group, 3, False),
        "gptq-2bit": lambda w: formats.GPTQ.quantise(w, group, 2, False),
    }[name]
    formats.METHODS[method] = ({**config, "group_size": group},
                               lambda stem, w: formats.prefixed(stem, formats.half(parts(w))))
    return method


def linear(module):
    return (".layers." in module or ".h." in module) and "norm" not in module.rsplit(".", 1)[-1]


# Modules that an adapter changes, by name, and the fields of its configuration.
ADAPTERS = {
    "all": (linear, {}),
    "transposed": (linear, {"fan_in_fan_out": True}),
    "rslora": (linear, {"use_rslora": True, "r": 20}),
    "attention": (lambda module: module.endswith(("q_proj", "v_proj")), {}),
    "patterns": (linear, {"rank_pattern": {"q_proj": 3, r"layers\.1\..*down_proj": 17, "down_proj": 5},
                          "alpha_pattern": {"o_proj": 1, r".*\.0\.mlp.up_proj": 30}}),
    "ends": (lambda module: module.endswith(("embed_tokens", "lm_head", "k_proj")), {}),
    "saved": (lambda module: module.endswith("o_proj"), {"modules_to_save": ["embed_tokens", "lm_head"]}),
}


def make_adapter(kind, folder, plain, name, seed):
    """Writes folder/name, for the model of the folder `plain`, and what the oracle has for it with the model of `folder`."""
    import numpy as np

    import decoder
    import lora
    from safetensors_io import Checkpoint
    chosen, fields = ADAPTERS[kind]
    modules = [module for module in lora.targets(Checkpoint(plain), r".*") if chosen(module)]
    out = os.path.join(folder, name)
    lora.write_adapter(out, plain, modules, seed=seed, **fields)
    ids = np.fromfile(os.path.join(folder, "ids.i32"), "<i4")
    logits = decoder.load(folder, adapters=[lora.Adapter.read(out)]).logits(ids)
    logits.astype("<f8").tofile(os.path.join(folder, name.replace("adapter", "adapted") + ".f64"))


def make_with_source(preset, dtype, changes, folder):
    """Writes an encoder-decoder; its ids are those of a source, which are filled up to a multiple of 16, and of a text behind
    it; source.i32 has those of the source alone, and rows of logits.f64 are 0 before the text."""
    import numpy as np

    import seq2seq
    import tiny_encoders
    config = tiny_encoders.write(folder, preset, dtype, seed=len(preset), **changes)
    model, random_ids = seq2seq.load(folder), np.random.default_rng(len(preset)).integers
    source = random_ids(0, config["vocab_size"], 37)
    text = np.concatenate([[model.start], random_ids(0, config["vocab_size"], 60)])
    fill = -len(source) % 16
    source.astype("<i4").tofile(os.path.join(folder, "source.i32"))
    np.concatenate([source, [source[-1]] * fill, text]).astype("<i4").tofile(os.path.join(folder, "ids.i32"))
    logits = model.given(source).logits(text)
    before = np.zeros((len(source) + fill, logits.shape[1]))
    np.concatenate([before, logits]).astype("<f8").tofile(os.path.join(folder, "logits.f64"))


def make(item, folder):
    """Writes a model, and what the oracle has for it."""
    import numpy as np  # here, because processes that find all they ask for need none of it

    import decoder
    import make_tiny_model

    name, dtype, shards, method, size, adapter = (item.split(":") + ["1", "", "", ""][item.count(":") - 1:])[:6]
    preset, *fields = name.split(",")
    changes = {field: json.loads(value) for field, value in (each.split("=") for each in fields)}
    changes = {**(WIDE if size else {}), **changes}
    import tiny_encoders
    if preset in tiny_encoders.SEQ2SEQ:
        return make_with_source(preset, dtype, changes, folder)
    config = make_tiny_model.write_model(folder, preset, dtype, int(shards), seed=len(preset),
                                         quantise=regrouped(method), **changes)
    config = config.get("text_config", config)
    length = min(LENGTH, longest(config))
    ids = np.random.default_rng(len(item)).integers(0, config["vocab_size"], length)
    ids.astype("<i4").tofile(os.path.join(folder, "ids.i32"))
    model = decoder.load(folder)
    model.logits(ids).astype("<f8").tofile(os.path.join(folder, "logits.f64"))
    if model.rope is not None and model.rope.depends_on_length:
        rows = [model.logits(ids[:n + 1])[-1] for n in range(length)]
        np.stack(rows).astype("<f8").tofile(os.path.join(folder, "prefixes.f64"))
    if not adapter:
        return
    plain = folder
    if method:  # whose matrices have other names
        plain = os.path.join(folder, "plain")
        make_tiny_model.write_model(plain, preset, dtype, 1, seed=len(preset), **changes)
    make_adapter(adapter, folder, plain, "adapter", 1)
    make_adapter(adapter, folder, plain, "adapter2", 2)


def make_missing(items, out):
    """Makes the models that are not there, each as a whole or not at all."""
    missing = [item for item in items if not os.path.exists(place(item, out))]
    random.shuffle(missing)  # two processes that need the same begin with different ones
    for item in missing:
        if os.path.exists(place(item, out)):  # made by another process meanwhile
            continue
        with tempfile.TemporaryDirectory(dir=out) as temporary:
            made = os.path.join(temporary, "model")
            make(item, made)
            try:
                os.rename(made, place(item, out))
            except OSError:
                if not os.path.exists(place(item, out)):
                    raise


def place(item, out):
    return os.path.join(out, item.replace(":", "-"))


def key(oracle):
    """Differs where the scripts do."""
    digest = hashlib.sha256()
    scripts = [os.path.join(oracle, name) for name in sorted(os.listdir(oracle)) if name.endswith(".py")]
    for path in scripts + [os.path.abspath(__file__)]:
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def main():
    oracle, out, *items = sys.argv[1:]
    sys.path.insert(0, oracle)
    if out == "--list":
        import make_tiny_model
        print("\n".join(make_tiny_model.PRESETS))
        return
    if out == "--keep":
        folder, *items = items
        out = os.path.join(folder, key(oracle))
        print(out)
    os.makedirs(out, exist_ok=True)
    make_missing(items, out)


if __name__ == "__main__":
    main()
