"""Writes a model folder's weights as a GGUF file (version 3), the format of programs that Sluice is measured beside.

Llama models with BF16 weights alone, as the random models are. Names and layout follow the format's specification
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md); the tokenizer's vocabulary is made up, since only token ids
are ever used.
"""

import json
import os
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
               "mlp.down_proj": "ffn_down"}
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


def metadata(config):
    """The fields, each as bytes."""
    vocabulary = config["vocab_size"]
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = (pieces + [f"t{index}" for index in range(len(pieces), vocabulary)])[:vocabulary]
    kinds = ([UNKNOWN, CONTROL, CONTROL] + [BYTE] * 256 + [NORMAL] * vocabulary)[:vocabulary]
    return [_field("general.architecture", STRING, "llama"),
            _field("general.file_type", UINT32, MOSTLY_BF16),
            _field("llama.vocab_size", UINT32, vocabulary),
            _field("llama.context_length", UINT32, config["max_position_embeddings"]),
            _field("llama.embedding_length", UINT32, config["hidden_size"]),
            _field("llama.block_count", UINT32, config["num_hidden_layers"]),
            _field("llama.feed_forward_length", UINT32, config["intermediate_size"]),
            _field("llama.attention.head_count", UINT32, config["num_attention_heads"]),
            _field("llama.attention.head_count_kv", UINT32, config["num_key_value_heads"]),
            _field("llama.attention.layer_norm_rms_epsilon", FLOAT32, config["rms_norm_eps"]),
            _field("llama.rope.dimension_count", UINT32, config["head_dim"]),
            _field("llama.rope.freq_base", FLOAT32, config["rope_theta"]),
            _field("tokenizer.ggml.model", STRING, "llama"),
            _array("tokenizer.ggml.tokens", STRING, pieces),
            _array("tokenizer.ggml.scores", FLOAT32, [0.0] * vocabulary),
            _array("tokenizer.ggml.token_type", INT32, kinds),
            _field("tokenizer.ggml.bos_token_id", UINT32, config["bos_token_id"]),
            _field("tokenizer.ggml.eos_token_id", UINT32, config["eos_token_id"])]


def _aligned(size):
    return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def _tensor(values, name, config):
    """Its type and bytes: vectors as F32, matrices as they are."""
    if values.ndim == 1:
        return F32, (values.astype(numpy.uint32) << 16).tobytes()
    if "q_proj" in name:
        values = neighbours_rotate(values, config["num_attention_heads"])
    if "k_proj" in name:
        values = neighbours_rotate(values, config["num_key_value_heads"])
    return BF16, values.tobytes()


def write(folder, path):
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    with open(os.path.join(folder, "model.safetensors"), "rb") as source:
        header = json.loads(source.read(int.from_bytes(source.read(8), "little")))
        begin = source.tell()
        names = [name for name in header if name != "__metadata__"]
        infos, offset = [], 0
        for name in names:
            shape = header[name]["shape"]
            kind, width = (F32, 4) if len(shape) == 1 else (BF16, 2)
            infos.append(_string(tensor_name(name)) + struct.pack("<I", len(shape))
                         + struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, offset))
            offset += _aligned(int(numpy.prod(shape)) * width)
        fields = metadata(config)
        with open(path, "wb") as file:
            file.write(b"GGUF" + struct.pack("<IQQ", 3, len(names), len(fields)) + b"".join(fields) + b"".join(infos))
            file.write(bytes(_aligned(file.tell()) - file.tell()))
            for name in names:
                first, last = header[name]["data_offsets"]
                source.seek(begin + first)
                values = numpy.frombuffer(source.read(last - first), numpy.uint16).reshape(header[name]["shape"])
                _, data = _tensor(values, name, config)
                file.write(data + bytes(_aligned(len(data)) - len(data)))
