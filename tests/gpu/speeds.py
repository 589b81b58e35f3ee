"""Speed, on random weights in the shape of Llama-3.1-8B."""

import os
import time

from context import BF16, FP8
from run import json_lines


def serving_flags(context, model, types=BF16):
    flags = ["--model", model, *types, "--max_step_tokens", "2048", "--max_step_sequences", "256"]
    return flags + (["--kv_cache_mib", "64"] if context.on_cpu else [])


def load(context, endpoint, prompt, written_tokens, concurrency, requests=None):
    _, out, _ = context.sluice("bench", "--endpoint", endpoint, "--json", "--prompt_tokens", str(prompt), "--max_tokens",
                               str(written_tokens), "--concurrency", str(concurrency), "--requests",
                               str(requests or concurrency))
    return json_lines(out)[0]


def scaled(context, full, small):
    return small if context.on_cpu else full


def decode_alone(context, up):
    context.done("decode 1", load(context, up.endpoint, scaled(context, 1000, 64), scaled(context, 256, 16), 1, 3))


def many_streams(context, up):
    context.done("256 streams", load(context, up.endpoint, scaled(context, 1000, 64), scaled(context, 1000, 16),
                                     scaled(context, 256, 8)))


def speed(context):
    """Through the whole pipeline, a process for each service."""
    context.plan("decode 1", "prefill", "decode 64", "256 streams")
    model = context.large_model()
    context.figures["weight_bytes"] = os.path.getsize(os.path.join(model, "model.safetensors"))
    prompt = scaled(context, 1000, 64)
    begin = time.monotonic()
    with context.up(*serving_flags(context, model)) as up:
        context.figures["ready_seconds"] = up.ready_seconds
        load(context, up.endpoint, 16, 2, 1)
        context.figures["first_token_seconds"] = time.monotonic() - begin
        status = json_lines(context.sluice("status", "--endpoint", up.endpoint, "--json")[1])[0]
        context.figures["arithmetic"] = sorted({one.get("arithmetic", "") for one in status["processes"]} - {""})
        load(context, up.endpoint, prompt, 16, 8)  # kernels are loaded, steps recorded
        decode_alone(context, up)
        context.done("prefill", load(context, up.endpoint, scaled(context, 2048, 256), 2, 1, scaled(context, 8, 2)))
        context.done("decode 64", load(context, up.endpoint, prompt, scaled(context, 256, 16), scaled(context, 64, 4)))
        many_streams(context, up)


def fp8_speed(context):
    """What weights, activations, keys and values in FP8 save: a token alone, and many streams."""
    context.plan("decode 1", "256 streams")
    model = context.large_model()
    with context.up(*serving_flags(context, model, FP8)) as up:
        load(context, up.endpoint, scaled(context, 1000, 64), 16, 8)  # kernels are loaded, steps recorded
        decode_alone(context, up)
        many_streams(context, up)


def in_one_process(context):
    """The same decode with all services in one process, to hold separate processes against."""
    context.plan("one_process", "processes")
    model = context.large_model()
    flags = ["--model", model, *BF16, *context.device_flags(), "--hang_timeout", "20"]
    flags += ["--kv_cache_mib", "64"] if context.on_cpu else []
    phases = ["--phases", "decode:1", "--rounds", "3", "--max_tokens", str(scaled(context, 256, 32)), "--json"]
    alone = rate_of(context.sluice("bench", *flags, *phases))
    context.done("one_process", alone)
    with context.up(*serving_flags(context, model)) as up:
        apart = rate_of(context.sluice("bench", "--endpoint", up.endpoint, *phases))
    context.figures["ratio"] = apart / alone
    context.done("processes", apart)


def rate_of(bench):
    _, out, _ = bench
    return json_lines(out)[0]["phases"][0]["tokens_per_second"]


def kernel_speed(context):
    context.plan("further kernels")
    context.run([context.program("sluice-gpu-bench"), context.flags.device, scaled(context, "full", "small")],
                env=context.device_environment(), seen=lambda out: context.figures.update(kernels=json_lines(out)))
    context.done("further kernels")
