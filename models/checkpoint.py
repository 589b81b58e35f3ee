"""The exported model folder: Hugging Face's file formats and tensor names, bfloat16 weights.

A safetensors file is an 8-byte little-endian header length, a JSON header that gives each
tensor's dtype, shape and byte range after the header, and the tensors' bytes.
"""
import json
import struct

import numpy as np
import torch

from llama import Llama


def hf_tensors(model):
    """Name -> tensor in the order of the file; fused matrices are cut into their parts."""
    kv_rows = model.kv_heads * model.head_dim
    tensors = {"model.embed_tokens.weight": model.embedding}
    for index, layer in enumerate(model.layers):
        q, k, v = layer["qkv"].split([model.heads * model.head_dim, kv_rows, kv_rows])
        gate, up = layer["gate_up"].chunk(2)
        parts = {"input_layernorm": layer["input_norm"], "self_attn.q_proj": q,
                 "self_attn.k_proj": k, "self_attn.v_proj": v, "self_attn.o_proj": layer["out"],
                 "post_attention_layernorm": layer["mlp_norm"], "mlp.gate_proj": gate,
                 "mlp.up_proj": up, "mlp.down_proj": layer["down"]}
        tensors.update({f"model.layers.{index}.{name}.weight": part
                        for name, part in parts.items()})
    tensors["model.norm.weight"] = model.norm
    return {name: tensor.detach() for name, tensor in tensors.items()}


def write_safetensors(path, tensors):
    """Writes `tensors` as BF16."""
    header, start = {"__metadata__": {"format": "pt"}}, 0
    for name, tensor in tensors.items():
        end = start + 2 * tensor.numel()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [start, end]}
        start = end
    encoded = json.dumps(header, separators=(",", ":")).encode()
    encoded += b" " * (-len(encoded) % 8)    # so that the tensors are aligned
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        for tensor in tensors.values():
            file.write(tensor.bfloat16().contiguous().view(torch.int16).numpy().tobytes())


def read_safetensors(path):
    """Name -> float32 tensor of a BF16 file."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = np.frombuffer(file.read(), dtype="<u2")
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = (offset // 2 for offset in entry["data_offsets"])
            bits = data[start:end].astype(np.uint32) << 16    # bfloat16 is float32's upper half
            tensors[name] = torch.from_numpy(bits.view(np.float32).reshape(entry["shape"]))
    return tensors


def generation_config(config):
    """The content of generation_config.json: sampling that suits the storyteller."""
    return {"bos_token_id": config["bos_token_id"], "eos_token_id": config["eos_token_id"],
            "do_sample": True, "temperature": 0.7, "top_p": 0.9,
            "max_length": config["max_position_embeddings"]}


def save_model(model, folder):
    """Writes config.json, generation_config.json and model.safetensors, the last one at once."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (("config.json", model.config),
                       ("generation_config.json", generation_config(model.config))):
        (folder / name).write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")
    unfinished = folder / "model.safetensors.new"
    write_safetensors(unfinished, hf_tensors(model))
    unfinished.rename(folder / "model.safetensors")


def load_model(folder):
    """The exported model for exact evaluation: bfloat16 weights, float32 arithmetic."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = Llama(config, dtype=torch.float32)
    load_weights(model, folder)
    return model.eval()


def load_weights(model, folder):
    """Sets the parameters of `model` to the exported ones; they are of the same shapes."""
    loaded = read_safetensors(folder / "model.safetensors")
    with torch.no_grad():
        for name, tensor in hf_tensors(model).items():    # views of the model's own storage
            tensor.copy_(loaded[name])
