"""Folders of Gemma 4 and of models with recurrent layers as GGUF files, laid out as llama.cpp's converter does it, for tests:
rates as minus themselves, value heads of Qwen3.5 by their number below a key head, norms of Mamba by groups.
"""

import json
import os
import re

import numpy as np

import decoder  # noqa: F401  loaded first: the others extend it
import families
import gguf_blocks
import gguf_file
import newer_families  # noqa: F401  extends families' tables
from safetensors_io import Checkpoint

OUTSIDE = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "embeddings": "token_embd",
           "norm_f": "output_norm", "embed_tokens_per_layer": "per_layer_token_embd",
           "per_layer_model_projection": "per_layer_model_proj", "per_layer_projection_norm": "per_layer_proj_norm"}
NAMES = {"input_layernorm": "attn_norm", "norm": "attn_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate": "ffn_gate_inp", "mixer.gate": "ffn_gate_inp", "router.proj": "ffn_gate_inp",
         "block_sparse_moe.router.layer": "ffn_gate_inp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
         "shared_mlp.output_linear": "ffn_down_shexp",
         "linear_attn.in_proj_z": "attn_gate", "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha",
         "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_ba": "ssm_ba", "linear_attn.out_proj": "ssm_out",
         "linear_attn.conv1d": "ssm_conv1d", "linear_attn.norm": "ssm_norm",
         "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm"}
for _mixer in ("mamba", "mixer"):
    for _ours, _theirs in (("in_proj", "in"), ("conv1d", "conv1d"), ("norm", "norm"), ("out_proj", "out")):
        NAMES[f"{_mixer}.{_ours}"] = f"ssm_{_theirs}"
for _part in ("q", "k", "v"):
    NAMES[f"self_attn.{_part}_proj"] = NAMES[f"mixer.{_part}_proj"] = f"attn_{_part}"
NAMES["self_attn.o_proj"] = NAMES["mixer.o_proj"] = "attn_output"
for _part in ("gate", "up", "down"):
    NAMES[f"mlp.{_part}_proj"] = NAMES[f"mixer.{_part}_proj"] = f"ffn_{_part}"
    NAMES[f"mlp.shared_expert.{_part}_proj"] = NAMES[f"mixer.shared_experts.{_part}_proj"] = f"ffn_{_part}_shexp"
GEMMA4_NORMS = {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
                "post_feedforward_layernorm": "post_ffw_norm", "pre_feedforward_layernorm_2": "pre_ffw_norm_2",
                "post_feedforward_layernorm_1": "post_ffw_norm_1", "post_feedforward_layernorm_2": "post_ffw_norm_2"}
ARCHITECTURES = {"qwen3_next": "qwen3next", "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe",
                 "granitemoehybrid": "granitehybrid", "nemotron_h": "nemotron_h", "gemma4_text": "gemma4"}
MATRIX = re.compile(r"blk\.\d+\.(attn_(q|k|v|output|qkv|gate)|ffn_(gate|up|down|gate_up)(_exps|_shexp)?|ssm_(in|out))\.weight")


def tiled(values, axis, groups, each):
    """Runs by key head -> first the first ones of all key heads."""
    shape = values.shape
    split = values.reshape(*shape[:axis], groups, each, -1, *shape[axis + 1:])
    return split.swapaxes(axis, axis + 1).reshape(shape)


class Writer:
    def __init__(self, config):
        self.config, self.family = config, config["model_type"]
        self.out, self.experts = {}, {}

    def add(self, name, values):
        """A tensor under the name that it has in a folder of this family."""
        name = name.replace("model.language_model.", "model.", 1)
        if name.endswith(".dt_bias"):
            name = name[:-len(".dt_bias")] + ".dt.bias"
        stem, _, suffix = name.rpartition(".")
        layer = re.fullmatch(r"(?:model|backbone)\.layers\.(\d+)\.(.*)", name)
        if self.family.startswith("qwen") and stem.endswith("norm") and not stem.endswith("linear_attn.norm"):
            values = values + 1.0
        if layer is None:
            self.out[f"{OUTSIDE[stem.rpartition('.')[2]]}.{suffix}"] = values
            return
        self.block, inner = f"blk.{layer[1]}.", layer[2]
        odd = self.odd(inner, values)
        if odd is not None:
            self.out.update((self.block + key, part) for key, part in odd.items())
            return
        stem, _, suffix = inner.rpartition(".")
        self.out[f"{self.block}{self.renamed(stem)}.{suffix}"] = self.arranged(stem, values)

    def renamed(self, stem):
        if self.family == "gemma4_text" and stem in GEMMA4_NORMS:
            return GEMMA4_NORMS[stem]
        if stem == "post_attention_layernorm":
            return "ffn_norm" if self.family == "granitemoehybrid" else "post_attention_norm"
        if stem == "shared_mlp.output_linear" and not self.config["num_local_experts"]:
            return "ffn_down"
        return NAMES[stem]

    def odd(self, inner, values):
        """Tensors that are cut, joined or named unlike the others; None for the others."""
        config = self.config
        expert = re.fullmatch(r".*experts\.(\d+)\.(gate|up|down)_proj\.weight", inner)
        if expert:
            self.experts.setdefault(f"{self.block}ffn_{expert[2]}_exps.weight", {})[int(expert[1])] = values
            return {}
        if inner.endswith((".A_log", ".D", ".dt.bias")):
            return self.of_heads(inner, values)
        plain = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
                 "layer_scalar": "layer_output_scale.weight", "mixer.gate.e_score_correction_bias": "exp_probs_b.bias",
                 "experts.down_proj": "ffn_down_exps.weight", "mlp.experts.down_proj": "ffn_down_exps.weight",
                 "block_sparse_moe.output_linear.weight": "ffn_down_exps.weight",
                 "experts.gate_up_proj": "ffn_gate_up_exps.weight"}
        if inner in plain:
            return {plain[inner]: values}
        if inner in ("mlp.experts.gate_up_proj", "block_sparse_moe.input_linear.weight"):
            gate, up = np.split(values, 2, axis=1)
            return {"ffn_gate_exps.weight": gate, "ffn_up_exps.weight": up}
        if inner == "shared_mlp.input_linear.weight":
            gate, up = np.split(values, 2)
            end = "_shexp" if config["num_local_experts"] else ""
            return {f"ffn_gate{end}.weight": gate, f"ffn_up{end}.weight": up}
        if inner == "mlp.shared_expert_gate.weight":
            return {"ffn_gate_inp_shexp.weight": values[0]}
        if inner == "linear_attn.in_proj_qkvz.weight":
            return self.split_by_key_head(values)
        return None

    def of_heads(self, inner, values):
        if self.family.startswith("qwen3_5"):
            values = tiled(values, 0, self.config["linear_num_key_heads"], self.each())
        if inner.endswith(".dt.bias"):
            return {"ssm_dt.bias": values}
        values = -np.exp(values) if inner.endswith(".A_log") else values
        return {"ssm_a" if inner.endswith(".A_log") else "ssm_d":
                values if self.family.startswith("qwen") else values.reshape(-1, 1)}

    def each(self):
        return self.config["linear_num_value_heads"] // self.config["linear_num_key_heads"]

    def split_by_key_head(self, values):
        config, groups = self.config, self.config["linear_num_key_heads"]
        keys, of_values = config["linear_key_head_dim"], self.each() * config["linear_value_head_dim"]
        parts = np.split(values.reshape(groups, -1, values.shape[1]), np.cumsum([keys, keys, of_values]), axis=1)
        q, k, v, z = (part.reshape(-1, values.shape[1]) for part in parts)
        return {"attn_qkv.weight": np.concatenate([q, k, v]), "attn_gate.weight": z}

    def arranged(self, stem, values):
        config = self.config
        if stem.endswith("conv1d") and values.ndim == 3:
            values = values[:, 0]
        if self.family.startswith("qwen3_5") and stem.startswith("linear_attn."):
            groups, each = config["linear_num_key_heads"], self.each()
            skipped = 2 * groups * config["linear_key_head_dim"]
            if stem.endswith((".in_proj_qkv", ".conv1d")):
                return np.concatenate([values[:skipped], tiled(values[skipped:], 0, groups, each)])
            if stem.endswith((".in_proj_z", ".in_proj_b", ".in_proj_a")):
                return tiled(values, 0, groups, each)
            if stem.endswith(".out_proj"):
                return tiled(values, 1, groups, each)
        if stem in ("mamba.norm", "mixer.norm"):
            return values.reshape(config.get("mamba_n_groups") or config["n_groups"], -1)
        if self.family == "granitemoehybrid" and stem.endswith((".q_proj", ".k_proj")):
            heads = config["num_attention_heads" if stem.endswith(".q_proj") else "num_key_value_heads"]
            return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)
        return values

    def tensors(self):
        stacks = {name: np.stack([parts[i] for i in sorted(parts)]) for name, parts in self.experts.items()}
        return {**self.out, **stacks, **self.divisors()}

    def divisors(self):
        if self.family != "gemma4_text":
            return {}
        pairs = self.config["global_head_dim"] // 2
        turned = int(pairs * self.config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
        return {"rope_freqs.weight": np.array([1.0] * turned + [1e30] * (pairs - turned))}


def of_states(config):
    """Metadata of recurrent layers."""
    if "linear_num_value_heads" in config:
        heads = config["linear_num_value_heads"]
        return {"ssm.conv_kernel": config["linear_conv_kernel_dim"], "ssm.state_size": config["linear_key_head_dim"],
                "ssm.group_count": config["linear_num_key_heads"], "ssm.time_step_rank": heads,
                "ssm.inner_size": heads * config["linear_value_head_dim"]}
    get = config.get
    heads = get("mamba_n_heads") or config["mamba_num_heads"]
    return {"ssm.conv_kernel": get("mamba_d_conv") or config["conv_kernel"],
            "ssm.state_size": get("mamba_d_state") or config["ssm_state_size"],
            "ssm.group_count": get("mamba_n_groups") or config["n_groups"], "ssm.time_step_rank": heads,
            "ssm.inner_size": heads * (get("mamba_d_head") or config["mamba_head_dim"])}


def of_gemma4(config):
    layers, shared = config["num_hidden_layers"], config["num_kv_shared_layers"]
    windows = [kind == "sliding_attention" for kind in config["layer_types"]]
    heads, width = config["num_key_value_heads"], config["intermediate_size"]
    doubled = 2 if config["use_double_wide_mlp"] else 1
    rope = config["rope_parameters"]
    values = {"attention.sliding_window": config["sliding_window"], "attention.sliding_window_pattern": windows,
              "attention.shared_kv_layers": shared, "embedding_length_per_layer_input": config["hidden_size_per_layer_input"],
              "attention.key_length": config["global_head_dim"], "attention.value_length": config["global_head_dim"],
              "attention.key_length_swa": config["head_dim"], "attention.value_length_swa": config["head_dim"],
              "rope.dimension_count": config["global_head_dim"], "rope.dimension_count_swa": config["head_dim"],
              "rope.freq_base": float(rope["full_attention"]["rope_theta"]),
              "rope.freq_base_swa": float(rope["sliding_attention"]["rope_theta"]),
              "feed_forward_length": [width * (doubled if layer >= layers - shared else 1) for layer in range(layers)]}
    if config["num_global_key_value_heads"]:
        values["attention.head_count_kv"] = [heads if is_windowed else config["num_global_key_value_heads"]
                                             for is_windowed in windows]
    if config["final_logit_softcapping"]:
        values["final_logit_softcapping"] = float(config["final_logit_softcapping"])
    if config["enable_moe_block"]:
        values.update({"expert_count": config["num_experts"], "expert_used_count": config["top_k_experts"],
                       "expert_feed_forward_length": config["moe_intermediate_size"]})
    return values


def of_mixture(config):
    """What mixtures beside recurrent layers say."""
    fields = {"expert_count": ("num_experts", "num_local_experts", "n_routed_experts"), "expert_used_count": ("num_experts_per_tok",),
              "expert_feed_forward_length": ("moe_intermediate_size",),
              "expert_shared_feed_forward_length": ("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size"),
              "expert_weights_norm": ("norm_topk_prob",), "expert_weights_scale": ("routed_scaling_factor",),
              "expert_group_count": ("n_group",)}
    values = {key: next((config[name] for name in names if config.get(name) is not None), None) for key, names in fields.items()}
    if config["model_type"] == "granitemoehybrid" and config["num_local_experts"]:
        values.update({"expert_feed_forward_length": config["intermediate_size"],
                       "expert_shared_feed_forward_length": config["shared_intermediate_size"]})
    return {key: value for key, value in values.items() if value}


def by_layer(config):
    """Numbers that tell layers of Granite 4 and Nemotron-H apart."""
    kinds = config.get("layer_types") or config["hybrid_override_pattern"]
    values = {"attention.head_count_kv": [config["num_key_value_heads"] if kind in ("attention", "*") else 0 for kind in kinds]}
    if config["model_type"] == "nemotron_h":
        widths = {"-": config["intermediate_size"], "E": config["moe_intermediate_size"]}
        values["feed_forward_length"] = [widths.get(kind, 0) for kind in kinds]
    else:
        values.update({"attention.scale": float(config["attention_multiplier"]),
                       "embedding_scale": float(config["embedding_multiplier"]),
                       "residual_scale": float(config["residual_multiplier"]), "logit_scale": float(config["logits_scaling"]),
                       "rope.scaling.finetuned": config["position_embedding_type"] == "rope"})
        if not config["num_local_experts"]:
            values["feed_forward_length"] = config["shared_intermediate_size"]
    return values


def metadata(config):
    family, get = config["model_type"], config.get
    head_dim = get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = get("rope_parameters") or config
    values = {"context_length": config["max_position_embeddings"], "embedding_length": config["hidden_size"],
              "block_count": config["num_hidden_layers"], "vocab_size": config["vocab_size"],
              "feed_forward_length": get("intermediate_size") or 1,
              "attention.head_count": config["num_attention_heads"], "attention.head_count_kv": config["num_key_value_heads"],
              "attention.key_length": head_dim, "attention.value_length": head_dim,
              "attention.layer_norm_rms_epsilon": float(get("rms_norm_eps") or config["layer_norm_epsilon"]),
              "rope.dimension_count": int(head_dim * rope.get("partial_rotary_factor", 1.0))}
    if rope.get("rope_theta"):
        values["rope.freq_base"] = float(rope["rope_theta"])
    if family == "gemma4_text":
        values.update(of_gemma4(config))
    else:
        values.update({**of_states(config), **of_mixture(config)})
        if family.startswith("qwen"):
            values["full_attention_interval"] = get("full_attention_interval") or 4
        else:
            values.update(by_layer(config))
    architecture = ARCHITECTURES[family]
    if family == "nemotron_h" and values.get("expert_count"):
        architecture = "nemotron_h_moe"
    return {"general.architecture": architecture, "tokenizer.ggml.model": "none",
            **{f"{architecture}.{key}": value for key, value in values.items()}}


def write(folder, path, kind="F32"):
    """A folder as `path`, matrices of the layers in `kind` where rows are whole blocks."""
    with open(os.path.join(folder, "config.json")) as file:
        given = json.load(file)
    text = given.get("text_config", given)
    text = {**text, "tie_word_embeddings": given.get("tie_word_embeddings", text.get("tie_word_embeddings", False))}
    config = {**families.DEFAULTS.get(text["model_type"], {}), **text}
    writer, weights = Writer(config), Checkpoint(folder)
    for name in weights.entries:
        writer.add(name, np.asarray(weights[name], np.float64))
    block = 1 if kind in gguf_file.PLAIN else gguf_blocks.BLOCKS[kind][0]

    def kind_of(name, values):
        return kind if MATRIX.fullmatch(name) and values.shape[-1] % block == 0 else "F32"

    gguf_file.write(path, metadata(config), {name: (values, kind_of(name, values)) for name, values in writer.tensors().items()})
