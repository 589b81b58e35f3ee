"""The rows of the table: what is run, what its ceiling is, and which share of it is asked.

A measurement yields (row, ceiling, reached) for each row that it feeds. A ceiling is a number, or a function of the bytes
and operations per second that the machine reached right before and after. A share is reached / ceiling, or the reverse
where less is better.
"""

import dataclasses
import math

import gpt_oss as gpt_oss_shapes

SMALL, LARGE = "smollm2-360m", "tinyllama-1.1b"
MIXTURE, ACTIVE = "qwen3-a3b-4l", "qwen3-active-4l"  # the second is a dense model of the first one's active part
GPT_OSS = "gpt-oss-4l"
# Files that others quantised, of the shape of LARGE, and our own format of the same bits.
FILES = {"q4_0": "int4", "q4_k": "int4", "q8_0": "int8", "awq": "int4", "gptq": "int4"}


@dataclasses.dataclass(frozen=True)
class Row:
    what: str
    unit: str
    asked: float        # share
    asked_as: str       # how the share came about
    less_is_better: bool = False


@dataclasses.dataclass
class Context:
    programs: object
    models: dict  # name: folder
    round: int    # from 0
    num_weights: object     # of a model's folder
    unread_weights: object

    def target(self, model, weights="bf16"):
        return ["--model", self.models[model], "--weights", weights, "--threads", str(self.programs.threads)]


ROWS = {
    "gemv bf16": Row("decode GEMV, bf16 weights", "GB/s", 0.90, "90%"),
    "gemv int8": Row("decode GEMV, int8 weights", "GB/s", 0.85, "85%"),
    "gemv int4": Row("decode GEMV, int4 weights", "GB/s", 0.70, "70%"),
    "gemm bf16": Row("GEMM M=512, bf16 weights", "GFLOP/s", 0.60, "60%"),
    "attention long": Row("attention of one sequence at 32,768 positions", "GB/s", 0.80, "80%"),
    "small bf16": Row(f"{SMALL} bf16 decode, batch 1", "tok/s", 33 / 38.7, "33 of 38.7"),
    "small int8": Row(f"{SMALL} int8 decode", "tok/s", 58 / 73, "58 of 73"),
    "small int4": Row(f"{SMALL} int4 decode", "tok/s", 84 / 129, "84 of 129"),
    "small prefill": Row(f"{SMALL} bf16 prefill 512", "tok/s", 3500 / 8700, "3,500 of 8,700"),
    "small streams": Row(f"{SMALL} bf16 decode, 16 streams", "tok/s", 450 / 619, "450 of 619"),
    "large bf16": Row(f"{LARGE} bf16 decode", "tok/s", 11.5 / 12.7, "11.5 of 12.7"),
    "large prefill": Row(f"{LARGE} bf16 prefill 512", "tok/s", 1300 / 2860, "1,300 of 2,860"),
    "mixture bf16": Row(f"{MIXTURE} bf16 decode against {ACTIVE}", "tok/s", 0.85, "0.85"),
    "mixture int4": Row(f"{MIXTURE} int4 decode against {ACTIVE}", "tok/s", 0.85, "0.85"),
    "mixture products": Row(f"products of experts in a step of 512 rows of {MIXTURE}: without router, grouping and combining",
                            "ms", 0.95, "95%", less_is_better=True),
    "gpt-oss mxfp4": Row(f"{GPT_OSS} (MXFP4) decode", "tok/s", 0.75, "75%"),
    **{f"file {name}": Row(f"{LARGE} from a file of {name.upper()} against {own}, byte for byte, decode", "tok/s", 0.9, "0.9")
       for name, own in FILES.items()},
    "processes": Row(f"one process per service against all in one, {SMALL} decode", "tok/s", 0.97, "0.97"),
    "ranks": Row(f"TP 2 (one thread each) against TP 1 with two threads, {LARGE} decode", "tok/s", 0.92, "0.92"),
    "memory": Row("peak memory of a shard against weights + KV pool", "MB", 1 / 1.15, "1.15 times",
                  less_is_better=True),
    "ready": Row(f"{LARGE} bf16 ready to serve, file in page cache", "s", 1.0, "3 s", less_is_better=True),
}

READY_SECONDS = 3.0
TURNS = 3  # in a round, of what is compared with each other
KV_MIB = 64  # of the pipelines whose memory is measured: small enough to be filled


def streams_ceiling(bandwidth, peak, bytes_per_step, num_weights, streams):
    """Tokens per second of steps that read all weights once and multiply them by a row per stream."""
    return streams / max(bytes_per_step / bandwidth, 2 * num_weights * streams / peak)


def prefill_ceiling(peak, num_weights):
    """Tokens per second where each is multiplied by every weight."""
    return peak / (2 * num_weights)


def _bytes_per_step(context, model, report, bytes_per_weight=2):
    """What the weights occupy, with an embedding table that a step does not read: as in the asked shares' ceilings."""
    return report["step_weight_bytes"] + bytes_per_weight * context.unread_weights(context.models[model])


def gemv(format):
    return lambda context: _kernel(context, "gemv", format, "bytes_per_second", "share_of_bandwidth")


def gemm(format):
    return lambda context: _kernel(context, "gemm", format, "operations_per_second", "share_of_peak")


def _kernel(context, kind, format, rate, share):
    """All matrices of a layer; the kernel benchmark takes its ceilings in turns with them."""
    for line in context.programs.kernels(kind, format, SMALL):
        if line["kernel"].endswith(" layer"):
            yield f"{kind} {format}", line[rate] / line[share] / 1e9, line[rate] / 1e9


def long_attention(context):
    for line in context.programs.kernels("attention", "bf16", SMALL):
        if line["kernel"].endswith(" 1 x T 1 at 32768") and line["format"] == "F32":
            yield "attention long", line["bytes_per_second"] / line["share_of_bandwidth"] / 1e9, \
                line["bytes_per_second"] / 1e9


def decode(model, row, weights):
    def run(context):
        report = context.programs.bench(context.target(model, weights), "decode:1", 48)
        size = _bytes_per_step(context, model, report)
        yield row, lambda bandwidth, peak: bandwidth / size, report["rates"]["decode:1"]
    return run


def prefill(model, row):
    def run(context):
        report = context.programs.bench(context.target(model), "prefill:512", 2)
        count = context.num_weights(context.models[model])
        yield row, lambda bandwidth, peak: prefill_ceiling(peak, count), report["rates"]["prefill:512"]
    return run


def streams(model, row, number):
    def run(context):
        report = context.programs.bench(context.target(model), f"decode:{number}", 48)
        size, count = _bytes_per_step(context, model, report), context.num_weights(context.models[model])
        yield row, lambda bandwidth, peak: streams_ceiling(bandwidth, peak, size, count, number), \
            report["rates"][f"decode:{number}"]
    return run


def _in_turns(context, *measures):
    """What each of the functions returns, several times: in turns, so that what drifts favours none."""
    for turn in range(TURNS):
        order = list(range(len(measures)))
        if (context.round + turn) % 2 == 1:
            order.reverse()
        results = {index: measures[index]() for index in order}
        yield [results[index] for index in range(len(measures))]


def _decode_rate(context, target):
    return context.programs.bench(target, "decode:1", 32)["rates"]["decode:1"]


def mixture(weights):
    def run(context):
        for active, experts in _in_turns(context, lambda: _decode_rate(context, context.target(ACTIVE, weights)),
                                         lambda: _decode_rate(context, context.target(MIXTURE, weights))):
            yield f"mixture {weights}", active, experts
    return run


def mixture_products(context):
    """Router, routing, grouping and combining are what the layer takes beyond the products of each expert by itself."""
    for line in context.programs.kernels("experts", "bf16", MIXTURE):
        yield "mixture products", line["products_seconds"] * 1e3, line["seconds"] * 1e3


def gpt_oss(context):
    report = context.programs.bench(["--model", context.models[GPT_OSS], "--threads", str(context.programs.threads)],
                                    "decode:1", 48)
    size = gpt_oss_shapes.step_bytes(report["step_weight_bytes"])
    yield "gpt-oss mxfp4", lambda bandwidth, peak: bandwidth / size, report["rates"]["decode:1"]


def quantised_file(name):
    """The rate of our own format, if its bytes were as many as the file's."""
    def run(context):
        file = ["--model", context.models[f"{LARGE}-{name}"], "--threads", str(context.programs.threads)]

        def rate(target):
            report = context.programs.bench(target, "decode:1", 32)
            return report["rates"]["decode:1"], report["step_weight_bytes"]
        for (own, own_bytes), (reached, file_bytes) in _in_turns(
                context, lambda: rate(context.target(LARGE, FILES[name])), lambda: rate(file)):
            yield f"file {name}", own * own_bytes / file_bytes, reached
    return run


def processes(context):
    with context.programs.up(*context.target(SMALL), "--kv_cache_mib", str(KV_MIB)) as up:
        for in_one, apart in _in_turns(context, lambda: _decode_rate(context, context.target(SMALL)),
                                       lambda: _decode_rate(context, ["--endpoint", up.endpoint])):
            yield "processes", in_one, apart
        yield from _memory(context, up)


def ranks(context):
    flags = [*context.target(LARGE), "--kv_cache_mib", str(KV_MIB)]
    with context.programs.up(*flags, "--tp", "1") as one, context.programs.up(*flags, "--tp", "2") as two:
        yield "ready", READY_SECONDS, one.ready_seconds
        for whole, shared in _in_turns(context, lambda: _decode_rate(context, ["--endpoint", one.endpoint]),
                                       lambda: _decode_rate(context, ["--endpoint", two.endpoint])):
            yield "ranks", whole, shared
        for up in (one, two):
            yield from _memory(context, up)


def _memory(context, up):
    """Peaks after a load that has written every block of the pool, once: a peak does not vary as a speed does."""
    if context.round > 0:
        return
    status = context.programs.status(up.endpoint)
    pool = status["kv_cache"]
    prompt = 512
    requests = math.ceil(pool["num_blocks"] * pool["block_size"] / prompt) + 4
    context.programs.load(up.endpoint, prompt, 16, requests)
    peaks = up.shard_peaks()
    for process in status["processes"]:
        if process["service"] == "shard":
            held = process["weight_bytes"] + process["kv_bytes"]
            yield "memory", held / 1e6, peaks[f"shard-{process['stage']}-{process['rank']}"] / 1e6


@dataclasses.dataclass(frozen=True)
class Measurement:
    title: str
    models: tuple  # that it needs
    rows: tuple    # that it feeds
    run: object    # of a Context; yields samples


# In the order of a round.
MEASUREMENTS = [
    Measurement("GEMV bf16", (), ("gemv bf16",), gemv("bf16")),
    Measurement("GEMV int8", (), ("gemv int8",), gemv("int8")),
    Measurement("GEMV int4", (), ("gemv int4",), gemv("int4")),
    Measurement("GEMM bf16", (), ("gemm bf16",), gemm("bf16")),
    Measurement("attention at 32,768 positions", (), ("attention long",), long_attention),
    Measurement(f"{SMALL} bf16 decode", (SMALL,), ("small bf16",), decode(SMALL, "small bf16", "bf16")),
    Measurement(f"{SMALL} int8 decode", (SMALL,), ("small int8",), decode(SMALL, "small int8", "int8")),
    Measurement(f"{SMALL} int4 decode", (SMALL,), ("small int4",), decode(SMALL, "small int4", "int4")),
    Measurement(f"{SMALL} prefill", (SMALL,), ("small prefill",), prefill(SMALL, "small prefill")),
    Measurement(f"{SMALL} 16 streams", (SMALL,), ("small streams",), streams(SMALL, "small streams", 16)),
    Measurement(f"{LARGE} bf16 decode", (LARGE,), ("large bf16",), decode(LARGE, "large bf16", "bf16")),
    Measurement(f"{LARGE} prefill", (LARGE,), ("large prefill",), prefill(LARGE, "large prefill")),
    Measurement(f"{MIXTURE} bf16 decode", (MIXTURE, ACTIVE), ("mixture bf16",), mixture("bf16")),
    Measurement(f"{MIXTURE} int4 decode", (MIXTURE, ACTIVE), ("mixture int4",), mixture("int4")),
    Measurement(f"{MIXTURE} step of 512 rows", (), ("mixture products",), mixture_products),
    Measurement(f"{GPT_OSS} decode", (GPT_OSS,), ("gpt-oss mxfp4",), gpt_oss),
    *(Measurement(f"{LARGE} {name} file", (LARGE, f"{LARGE}-{name}"), (f"file {name}",), quantised_file(name))
      for name in FILES),
    Measurement(f"{SMALL} one process per service", (SMALL,), ("processes", "memory"), processes),
    Measurement(f"{LARGE} TP 2 against TP 1", (LARGE,), ("ready", "memory", "ranks"), ranks),
]


def share(row, ceiling, reached):
    return ceiling / reached if row.less_is_better else reached / ceiling


@dataclasses.dataclass
class Result:
    """A row with its medians; `note` says why there are none."""
    row: Row
    ceiling: float = 0
    reached: float = 0
    share: float = 0
    least: float = 0
    most: float = 0
    samples: int = 0
    note: str = ""


def median(values):
    values = sorted(values)
    return (values[(len(values) - 1) // 2] + values[len(values) // 2]) / 2


def summarise(samples, notes):
    """`samples`: {row: [(ceiling, reached), ...]}; `notes`: {row: why nothing was measured}."""
    results = []
    for key, row in ROWS.items():
        pairs = samples.get(key, [])
        if not pairs:
            results.append(Result(row, note=notes.get(key, "not measured")))
            continue
        shares = [share(row, *pair) for pair in pairs]
        if key == "memory":  # of shards of different sizes the worst counts
            pairs = [min(pairs, key=lambda pair: share(row, *pair))]
            shares = [share(row, *pairs[0])]
        results.append(Result(row, median([ceiling for ceiling, _ in pairs]), median([reached for _, reached in pairs]),
                              median(shares), min(shares), max(shares), len(shares)))
    return results
