"""Sluice beside llama.cpp: the same weights, in turns on the same threads. `./dev bench --peer DIR`, where DIR holds
llama-bench, llama-batched-bench and llama-quantize.

Files of the peer's formats, which both read as they are, and mixtures are compared as well. Formats answer each other by their bits a weight: INT8 and Q8_0 have 8.5, Q4_0 4.5 and INT4 4.28, one scale for 32 weights
each. Everything else of either program is as it comes: llama-quantize keeps the head as Q6_K beside Q4_0, Sluice as INT6.
"""

import dataclasses
import itertools
import os

import gguf
import programs
import rows

FILE_TYPES = {"bf16": "BF16", "int8": "Q8_0", "int4": "Q4_0"}
PROMPT, PREFILL, TOKENS, STREAMS = 16, 512, 48, 16


class Peer:
    def __init__(self, folder, threads, cache):
        self.folder, self.threads, self.cache = folder, threads, cache
        self.build = ""

    def _lines(self, program, *arguments):
        return programs.json_lines([os.path.join(self.folder, program), *arguments], timeout=1800)

    def file(self, model, folder, weights, say):
        """The model as a GGUF file, made where it is not there yet."""
        path = os.path.join(self.cache, f"{model}-{weights}.gguf")
        if os.path.exists(path):
            return path
        say(f"making {path}")
        if weights == "bf16":
            gguf.write(folder, path + ".part")
        else:
            programs.run([os.path.join(self.folder, "llama-quantize"), self.file(model, folder, "bf16", say),
                          path + ".part", FILE_TYPES[weights], str(self.threads)], timeout=1800)
        os.rename(path + ".part", path)
        return path

    def _bench(self, file, *arguments):
        line = self._lines("llama-bench", "--model", file, "--threads", str(self.threads), "--repetitions", "1",
                           "--output", "jsonl", *arguments)[-1]
        self.build = f"build {line['build_number']}, {line['build_commit']}"
        return line["avg_ts"]

    def rate(self, file, kind):
        if kind == "prefill":
            return self._bench(file, "--n-prompt", str(PREFILL), "--n-gen", "0")
        if kind == "decode":
            return self._bench(file, "--n-prompt", "0", "--n-gen", str(TOKENS), "--n-depth", str(PROMPT))
        context = STREAMS * (PROMPT + TOKENS)
        return self._lines("llama-batched-bench", "--model", file, "--threads", str(self.threads), "--ctx-size",
                           str(context), "-npp", str(PROMPT), "-ntg", str(TOKENS), "-npl", str(STREAMS),
                           "--output-format", "jsonl")[-1]["speed_tg"]


PHASES = {"prefill": f"prefill:{PREFILL}", "decode": "decode:1", "streams": f"decode:{STREAMS}"}
WORDS = {"prefill": f"prefill {PREFILL}", "decode": "decode", "streams": f"decode, {STREAMS} streams"}


@dataclasses.dataclass(frozen=True)
class Comparison:
    model: str
    weights: str
    kind: str  # of PHASES

    @property
    def models(self):
        return (self.model,)

    @property
    def title(self):
        return f"{self.model} {self.weights} {WORDS[self.kind]}"

    def ceiling(self, context, report, bandwidth, peak):
        """Tokens per second, as of the rows of the same kind."""
        folder = context.models[self.model]
        count = context.num_weights(folder)
        if self.kind == "prefill":
            return rows.prefill_ceiling(peak, count)
        if self.kind == "decode":
            return bandwidth / report["step_weight_bytes"]
        return rows.streams_ceiling(bandwidth, peak, report["step_weight_bytes"],
                                    count - context.unread_weights(folder), STREAMS)

    def file(self, context, peer, say):
        """What the peer reads."""
        return peer.file(self.model, context.models[self.model], self.weights, say)

    def ours(self, context):
        """The report of `sluice bench`, and tokens per second."""
        report = context.programs.bench(context.target(self.model, self.weights), PHASES[self.kind],
                                        2 if self.kind == "prefill" else TOKENS)
        return report, report["rates"][PHASES[self.kind]]


@dataclasses.dataclass(frozen=True)
class FileComparison(Comparison):
    """Both read the same file, whose blocks are of `weights`."""

    @property
    def models(self):
        return self.model, f"{self.model}-{self.weights}"

    @property
    def title(self):
        return f"{self.model} file of {self.weights.upper()} {WORDS[self.kind]}"

    def file(self, context, peer, say):
        return context.models[f"{self.model}-{self.weights}"]

    def ours(self, context):
        target = ["--model", context.models[f"{self.model}-{self.weights}"], "--threads", str(context.programs.threads)]
        report = context.programs.bench(target, PHASES[self.kind], 2 if self.kind == "prefill" else TOKENS)
        return report, report["rates"][PHASES[self.kind]]


@dataclasses.dataclass(frozen=True)
class MixtureComparison(Comparison):
    """Of a step's ceiling the experts of one row alone count."""

    def ceiling(self, context, report, bandwidth, peak):
        active = context.num_weights(context.models[rows.ACTIVE])
        share = active / context.num_weights(context.models[self.model])
        if self.kind == "prefill":
            return rows.prefill_ceiling(peak, active - context.unread_weights(context.models[rows.ACTIVE]))
        if self.kind == "decode":
            return bandwidth / (report["step_weight_bytes"] * share)
        return rows.streams_ceiling(bandwidth, peak, report["step_weight_bytes"], active, STREAMS)

    @property
    def models(self):
        return (self.model, rows.ACTIVE)


QUANTISED_FILES = ("q4_0", "q4_k", "q8_0")
COMPARISONS = [Comparison(*one) for one in itertools.product((rows.SMALL, rows.LARGE), FILE_TYPES, PHASES)]
COMPARISONS += [FileComparison(rows.LARGE, *one) for one in itertools.product(QUANTISED_FILES, PHASES)]
COMPARISONS += [MixtureComparison(rows.MIXTURE, *one) for one in itertools.product(("bf16", "int4"), PHASES)]


def compare(comparison, context, peer, say):
    """(Sluice's report and rate, the peer's rate), one after the other: whose turn is first changes with the round."""
    file = comparison.file(context, peer, say)
    if context.round % 2 == 0:
        report, ours = comparison.ours(context)
        return report, ours, peer.rate(file, comparison.kind)
    theirs = peer.rate(file, comparison.kind)
    return *comparison.ours(context), theirs


@dataclasses.dataclass
class Result:
    """Medians over the rounds; `note` says why there are none."""
    title: str
    ceiling: float = 0
    ours: float = 0
    theirs: float = 0
    ratio: float = 0
    least: float = 0
    most: float = 0
    note: str = ""


def summarise(comparisons, samples, notes):
    """`samples`: {title: [(ceiling, ours, theirs), ...]}; the ratio is the median of those of single turns."""
    results = []
    for title in (one.title for one in comparisons):
        taken = samples.get(title, [])
        if not taken:
            results.append(Result(title, note=notes.get(title, "not measured")))
            continue
        ratios = [ours / theirs for _, ours, theirs in taken]
        results.append(Result(title, *(rows.median([one[i] for one in taken]) for i in range(3)),
                              rows.median(ratios), min(ratios), max(ratios)))
    return results


def table(results):
    lines = ["| what | ceiling here | Sluice | llama.cpp | Sluice / llama.cpp (least to most) |", "|---|---|---|---|---|"]
    for one in results:
        if one.note:
            lines.append(f"| {one.title} | - | {one.note} | - | - |")
            continue
        lines.append(f"| {one.title} | {one.ceiling:,.1f} tok/s | {one.ours:,.1f} tok/s | {one.theirs:,.1f} tok/s | "
                     f"{one.ratio:.2f} ({one.least:.2f} to {one.most:.2f}) |")
    return "\n".join(lines) + "\n"


def folder_of(path):
    """`path`, checked to be what --peer wants; ValueError names what is missing."""
    for program in ("llama-bench", "llama-batched-bench", "llama-quantize"):
        if not os.access(os.path.join(path, program), os.X_OK):
            raise ValueError(f"--peer {path} has no program {program}")
    return path
