"""Writes a model folder's weights as a GGUF file (version 3), the format of programs that Sluice is measured beside.

Llama models, Qwen3 and its mixtures with BF16 weights alone, as the random models are. Names and layout follow the format's specification
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); the tokenizer's vocabulary is made up, since only token ids
are ever used.
"""

import json
import os
import re
import struct

import numpy

ALIGNMENT = 32
F32, BF16 = 0, 30  # types of tensors
MOSTLY_BF16 = 32   # general.file_type
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9  # types of metadata
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # types of tokens

LAYER_NAMES = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
               "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
               "post_attention_layernorm": "ffn_norm", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
               "mlp.down_proj": "ffn_down", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
               "mlp.gate": "ffn_gate_inp"}
ARCHITECTURES = {"llama": "llama", "qwen3": "qwen3", "qwen3_moe": "qwen3moe"}
EXPERTS = re.compile(r"model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight")
OTHER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def tensor_name(name):
    """What GGUF calls a tensor of Hugging Face's name."""
    stem = name.removesuffix(".weight")
    if stem in OTHER_NAMES:
        return OTHER_NAMES[stem] + ".weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{LAYER_NAMES[part]}.weight"


def neighbours_rotate(rows, heads):
    """Rows of queries or keys in the order of rotations that pair 2i with 2i + 1, instead of i with i + D / 2."""
    half = rows.shape[0] // heads // 2
    return rows.reshape(heads, 2, half, -1).swapaxes(1, 2).reshape(rows.shape)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _value(kind, value):
    return _string(value) if kind == STRING else struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f"}[kind], value)


def _field(key, kind, value):
    return _string(key) + struct.pack("<I", kind) + _value(kind, value)


def _array(key, kind, values):
    head = _string(key) + struct.pack("<IIQ", ARRAY, kind, len(values))
    return head + b"".join(_value(kind, value) for value in values)


def metadata(config, file_type=MOSTLY_BF16):
    """The fields, each as bytes."""
    vocabulary, name = config["vocab_size"], ARCHITECTURES[config["model_type"]]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = (pieces + [f"t{index}" for index in range(len(pieces), vocabulary)])[:vocabulary]
    kinds = ([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * vocabulary)[:vocabulary]
    mixture = [] if "num_experts" not in config else [
        _field(f"{name}.expert_count", UINT32, config["num_experts"]),
        _field(f"{name}.expert_used_count", UINT32, config["num_experts_per_tok"]),
        _field(f"{name}.expert_feed_forward_length", UINT32, config["moe_intermediate_size"])]
    return [*mixture, _field("general.architecture", STRING, name),
            _field("general.file_type", UINT32, file_type),
            _field(f"{name}.attention.key_length", UINT32, config["head_dim"]),
            _field(f"{name}.attention.value_length", UINT32, config["head_dim"]),
            _field(f"{name}.vocab_size", UINT32, vocabulary),
            _field(f"{name}.context_length", UINT32, config["max_position_embeddings"]),
            _field(f"{name}.embedding_length", UINT32, config["hidden_size"]),
            _field(f"{name}.block_count", UINT32, config["num_hidden_layers"]),
            _field(f"{name}.feed_forward_length", UINT32, config["intermediate_size"]),
            _field(f"{name}.attention.head_count", UINT32, config["num_attention_heads"]),
            _field(f"{name}.attention.head_count_kv", UINT32, config["num_key_value_heads"]),
            _field(f"{name}.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]),
            _field(f"{name}.rope.dimension_count", UINT32, config["head_dim"]),
            _field(f"{name}.rope.freq_base", FLOAT32, config["rope_theta"]),
            _field("tokenizer.ggml.model", STRING, "llama"),
            _array("tokenizer.ggml.tokens", STRING, pieces),
            _array("tokenizer.ggml.scores", FLOAT32, [0.0] * vocabulary),
            _array("tokenizer.ggml.token_type", INT32, kinds),
            _field("tokenizer.ggml.bos_token_id", UINT32, config["bos_token_id"]),
            _field("tokenizer.ggml.eos_token_id", UINT32, config["eos_token_id"])]


def aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def tensor_info(name, shape, kind, offset):
    return (_string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
            + struct.pack("<IQ", kind, offset))


def head(infos, fields):
    """What stands before the tensors' bytes."""
    text = b"GGUF" + struct.pack("<IQQ", 3, len(infos), len(fields)) + b"".join(fields) + b"".join(infos)
    return text + bytes(aligned(len(text)) - len(text))


def _bytes(values, name, config):
    """Of a tensor: vectors as F32, matrices as they are."""
    if values.ndim == 1:
        return (values.astype(numpy.uint32) << 16).tobytes()
    if config["model_type"] == "llama" and "q_proj" in name:
        values = neighbours_rotate(values, config["num_attention_heads"])
    if config["model_type"] == "llama" and "k_proj" in name:
        values = neighbours_rotate(values, config["num_key_value_heads"])
    return values.tobytes()


def joined(names):
    """[(the file's tensor, the tensors that it is made of)]: those of the experts of a layer are one."""
    parts = {}
    for name in names:
        expert = EXPERTS.fullmatch(name)
        key = f"blk.{expert[1]}.ffn_{expert[3]}_exps.weight" if expert else tensor_name(name)
        parts.setdefault(key, []).append((int(expert[2]) if expert else 0, name))
    return [(key, [name for _, name in sorted(of)]) for key, of in parts.items()]


def write(folder, path):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    with open(os.path.join(folder, "model.safetensors"), "rb") as source:
        header = json.loads(source.read(int.from_bytes(source.read(8), "little")))
        begin = source.tell()
        tensors = joined([name for name in header if name != "__metadata__"])
        infos, offset = [], 0
        for key, names in tensors:
            shape = header[names[0]]["shape"]
            kind, width = (F32, 4) if len(shape) == 1 else (BF16, 2)
            whole = [len(names), *shape] if "_exps." in key else shape
            infos.append(tensor_info(key, whole, kind, offset))
            offset += aligned(int(numpy.prod(whole)) * width)
        with open(path, "wb") as file:
            file.write(head(infos, metadata(config)))
            for _, names in tensors:
                size = 0
                for name in names:
                    first, last = header[name]["data_offsets"]
                    source.seek(begin + first)
                    values = numpy.frombuffer(source.read(last - first), numpy.uint16).reshape(header[name]["shape"])
                    size += file.write(_bytes(values, name, config))
                file.write(bytes(aligned(size) - size))
