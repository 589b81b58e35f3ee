"""Random models with real shapes, made once and kept in a folder."""

import json
import os
import subprocess
import sys

import rows

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))


class Unavailable(Exception):
    """Why a model can't be made here."""


def generator():
    data = os.environ.get("SLUICE_TESTDATA", os.path.join(CHECKOUT, "..", "shared"))
    return os.path.normpath(os.path.join(data, "bench", "make_random_model.py"))


def _python_with_numpy():
    # Debian's interpreter is the one that its python3-numpy belongs to.
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    raise Unavailable("no Python here has numpy (Debian: python3-numpy)")


def make(shape, cache, say):
    """The folder, or GGUF file, of the model `shape`, made where it is not there yet; its files end up in the page cache."""
    like, _, name = shape.rpartition("-")
    if shape == rows.GPT_OSS or name in rows.FILES:
        return _make_quantised(shape, like if name in rows.FILES else "", name, cache, say)
    folder = os.path.join(cache, shape)
    if not os.path.exists(os.path.join(folder, "model.safetensors")):
        script = generator()
        if not os.path.exists(script):
            raise Unavailable(f"no {script} ($SLUICE_TESTDATA names the folder that holds bench/)")
        python = _python_with_numpy()
        say(f"making {shape} in {folder}")
        os.makedirs(cache, exist_ok=True)
        subprocess.run([python, script, "--shape", shape, folder + ".part"], check=True, stdout=subprocess.DEVNULL)
        os.rename(folder + ".part", folder)
    _read(os.path.join(folder, "model.safetensors"))
    return folder


def _make_quantised(shape, like, name, cache, say):
    try:
        import quantised
    except ImportError as error:
        raise Unavailable(f"{error} (Debian: python3-numpy)") from None
    is_file = name.startswith("q")
    path = os.path.join(cache, shape + (".gguf" if is_file else ""))
    if not os.path.exists(path):
        folder = make(like, cache, say) if like else ""
        say(f"making {shape} in {path}")
        os.makedirs(cache, exist_ok=True)
        if not like:
            quantised.write_gpt_oss(path + ".part")
        elif is_file:
            quantised.write_gguf(folder, path + ".part", name.upper())
        else:
            quantised.write_packed(folder, path + ".part", name)
        os.rename(path + ".part", path)
    _read(path if is_file else os.path.join(path, "model.safetensors"))
    return path


def _read(path):
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def num_weights(folder):
    """Weights of the whole model, a table that is both embedding and head counted once."""
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    count = 0
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        size = 1
        for dimension in tensor["shape"]:
            size *= dimension
        count += size
    return count


def unread_weights(folder):
    """Weights of an embedding table that is not the head too: a step reads a row of it, not the whole."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    return 0 if config["tie_word_embeddings"] else config["vocab_size"] * config["hidden_size"]
