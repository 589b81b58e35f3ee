"""What gpu-prove wrote, as the GPU part of docs/performance.md. Pure functions."""

BEGIN, END = "<!-- begin of what ./dev gpu-prove showed -->", "<!-- end of what ./dev gpu-prove showed -->"


def _figures(seen, part):
    """Of a part that passed, or that was cut short and then has some of them; None otherwise."""
    result = seen["parts"].get(part, {})
    return result.get("figures") if result.get("state") in ("passed", "cut short") else None


def _mark(seen, part):
    """Behind what figures of a part are of."""
    return " (of a part cut short)" if seen["parts"].get(part, {}).get("state") == "cut short" else ""


def ceilings(seen):
    """(bytes per second of a copy, operations per second of the best product), 0 where unknown."""
    figures = (_figures(seen, "machine") or {}).get("ceilings", {})
    products = figures.get("bf16_operations_per_second", {})
    peak = max(products.values()) if isinstance(products, dict) and products else 0
    return figures.get("copy_bytes_per_second", 0), peak


def headline(seen):
    figures = (_figures(seen, "machine") or {}).get("ceilings", {})
    bandwidth, peak = ceilings(seen)
    name = figures.get("gpu", seen["device"])
    arithmetic = ", ".join((_figures(seen, "speed") or {}).get("arithmetic", []))
    text = f"{name}, {seen['date']}; copies {bandwidth / 1e12:.2f} TB/s" if bandwidth > 0 else f"{name}, {seen['date']}"
    text += f", cuBLASLt's best product {peak / 1e12:.0f} TFLOP/s" if peak > 0 else ""
    return f"{text}. {arithmetic}." if arithmetic else f"{text}."


# Of Llama-3.1-8B: keys and values of a position in BF16, operations of a row in all products but the head's.
KV_BYTES = 2 * 32 * 8 * 128 * 2
LAYER_WEIGHTS = 32 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336)
HEAD_WEIGHTS = 128256 * 4096


def speed_rows(seen):
    """(what, ceiling, reached, asked, met) of the table."""
    bandwidth, peak = ceilings(seen)
    rows = []
    for part, rows_of in (("speed", lambda speed: _speed_rows(speed, bandwidth, peak)),
                          ("fp8-speed", lambda speed: _fp8_rows(speed, bandwidth)),
                          ("kernel-speed", lambda figures: _attention_rows(figures, bandwidth)),
                          ("one-process", _one_process_rows)):
        mark = _mark(seen, part)
        rows += [(what + mark, *rest) for what, *rest in rows_of(_figures(seen, part) or {})]
    return rows


def _speed_rows(speed, bandwidth, peak):
    if bandwidth <= 0:
        return []
    rows = _decode_rows(speed, bandwidth) + _prefill_rows(speed, peak)
    if "256 streams" in speed:
        rate = _rate(speed["256 streams"])
        rows.append(("256 streams, 1,000 in and 1,000 out", "-", f"{rate:,.0f} tok/s", "8,000 tok/s", rate >= 8000))
    if "first_token_seconds" in speed:
        seconds = speed["first_token_seconds"]
        rows.append(("first token after start, weights in the page cache", "-", f"{seconds:.1f} s", "15 s", seconds <= 15))
    return rows


def _rate(streams):
    return streams["generated_tokens"] / streams["wall_seconds"]


def _decode_rows(speed, bandwidth):
    weights, rows = 2 * (LAYER_WEIGHTS + HEAD_WEIGHTS), []
    if "decode 1" in speed:
        one = speed["decode 1"]["between_tokens_ms"]["p50"]
        floor = 1e3 * (weights + 1128 * KV_BYTES) / bandwidth
        rows.append(("decode, batch 1, context 1k", f"{floor:.2f} ms", f"{one:.2f} ms ({floor / one:.0%})", "4.2 ms",
                     one <= 4.2))
    if "decode 64" in speed:
        many = speed["decode 64"]["between_tokens_ms"]["p50"]
        floor = 1e3 * (weights + 64 * 1128 * KV_BYTES) / bandwidth
        rows.append(("decode, batch 64, context 1k", f"{floor:.2f} ms", f"{many:.2f} ms ({floor / many:.0%})", "75%",
                     floor / many >= 0.75))
    return rows


# The head's weights have 34 bytes for 32, those of layers a scale for each slice; a head vector of 128 two bytes besides its codes.
FP8_HEAD_BYTES, FP8_KV_BYTES = 34 / 32 * HEAD_WEIGHTS, 2 * 32 * 8 * (128 + 2)


def _fp8_rows(speed, bandwidth):
    rows = []
    if "decode 1" in speed and bandwidth > 0:
        one = speed["decode 1"]["between_tokens_ms"]["p50"]
        floor = 1e3 * (LAYER_WEIGHTS + FP8_HEAD_BYTES + 1128 * FP8_KV_BYTES) / bandwidth
        rows.append(("decode in FP8, batch 1, context 1k", f"{floor:.2f} ms", f"{one:.2f} ms ({floor / one:.0%})", "-",
                     True))
    if "256 streams" in speed and bandwidth > 0:
        rate = _rate(speed["256 streams"])
        rows.append(("256 streams in FP8, 1,000 in and 1,000 out", "-", f"{rate:,.0f} tok/s", "14,000 tok/s",
                     rate >= 14000))
    return rows


def _prefill_rows(speed, peak):
    if peak <= 0 or "prefill" not in speed:
        return []
    prefill = speed["prefill"]["first_token_ms"]["p50"]
    floor = 1e3 * 2048 * 2 * LAYER_WEIGHTS / peak
    return [("prefill of 2,048", f"{floor:.1f} ms", f"{prefill:.1f} ms ({floor / prefill:.0%})", "60%",
             floor / prefill >= 0.6)]


def _one_process_rows(one):
    if "ratio" not in one:
        return []
    return [("separate processes against one, decode", f"{one['one_process']:.1f} tok/s",
             f"{one['processes']:.1f} tok/s ({one['ratio']:.2f})", "0.95", one["ratio"] >= 0.95)]


def _attention_rows(figures, bandwidth):
    rows = []
    for kernel in figures.get("kernels", []):
        if kernel["kernel"] != "attention BF16 32 x T 1 at 8192" or bandwidth <= 0:
            continue
        share = kernel["bytes"] / kernel["seconds"] / bandwidth
        rows.append(("decode attention, batch 32, context 8k", f"{bandwidth / 1e12:.2f} TB/s",
                     f"{share * bandwidth / 1e12:.2f} TB/s ({share:.0%})", "80%", share >= 0.8))
    return rows


def _prediction(kernel):
    """(time and bound, measured over predicted) of a kernel that kernels/cuda/roofline.h knows."""
    if "predicted" not in kernel:
        return "-", "-"
    return f"{1e6 * kernel['predicted']:,.1f} us, {kernel['bound']}", f"{kernel['seconds'] / kernel['predicted']:.2f}"


def kernel_table(seen):
    figures, bandwidth, peak = _figures(seen, "kernel-speed"), *ceilings(seen)
    if not figures or bandwidth <= 0:
        return ""
    mark = _mark(seen, "kernel-speed")
    lines = [f"| kernel{mark} | time | predicted, bound by | ratio | of copies | of the best product |",
             "|---|---|---|---|---|---|"]
    for kernel in figures.get("kernels", []):
        seconds = kernel["seconds"]
        of_peak = f"{kernel['operations'] / seconds / peak:.0%}" if peak > 0 and kernel["operations"] > 0 else "-"
        predicted, ratio = _prediction(kernel)
        lines.append(f"| {kernel['kernel']} | {1e6 * seconds:,.1f} us | {predicted} | {ratio} | "
                     f"{kernel['bytes'] / seconds / bandwidth:.0%} | {of_peak} |")
    return "\n".join(lines) + "\n"


def _instructions(result):
    return f", --gpu_instructions {result['gpu_instructions']}" if "gpu_instructions" in result else ""


def _found(result):
    """What a part saw besides figures that have a place elsewhere, and what kept it from seeing more."""
    figures, found = result.get("figures", {}), [result["why"]] if "why" in result else []
    if "passed" in figures and result["state"] != "failed":
        found.insert(0, f"{figures['passed']} cases, {figures['skipped']} skipped")
    if "missing" in result:
        found.append(f"missing: {', '.join(result['missing'])}")
    return " ".join("; ".join(found).split()).replace("|", "/")


def state_table(seen):
    lines = ["| shown | state | what was found |", "|---|---|---|"]
    for name, result in seen["parts"].items():
        lines.append(f"| {name} | {result['state']}{_instructions(result)} | {_found(result)[:300]} |")
    return "\n".join(lines) + "\n"


def markdown(seen):
    text = headline(seen) + "\n\n"
    rows = speed_rows(seen)
    if rows:
        text += "| what | ceiling there | reached | asked | met |\n|---|---|---|---|---|\n"
        text += "".join(f"| {what} | {ceiling} | {reached} | {asked} | {'yes' if met else 'no'} |\n"
                        for what, ceiling, reached, asked, met in rows) + "\n"
    kernels = kernel_table(seen)
    return text + (kernels + "\n" if kernels else "") + state_table(seen)
