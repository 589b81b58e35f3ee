"""Measures every row of the table in docs/performance.md on this machine: `./dev bench`.

Rounds: in each, every measurement runs once, between two looks at the machine's ceilings, and what is reported are
medians over the rounds of the share of the ceiling of that moment. Progress goes to stderr, the table to stdout.
"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "gpu"))

import gpu_report
import machine
import models
import peer
import programs
import report
import rows

CHECKOUT = models.CHECKOUT


def say(text):
    print(text, file=sys.stderr, flush=True)


def parse_flags():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=4, help="default 4")
    parser.add_argument("--quick", action="store_true", help="one round: less to trust")
    parser.add_argument("--only", default="", metavar="WORD", help="only measurements whose title contains this")
    parser.add_argument("--threads", type=int, default=2, help="for arithmetic; default 2, as the asked shares")
    parser.add_argument("--models", default=os.path.join(CHECKOUT, "build", "bench", "models"), metavar="DIR",
                        help="where random models are kept: 17 GB, 3 without mixtures and files (--only); default build/bench/models")
    parser.add_argument("--out", default=os.path.join(CHECKOUT, "build", "bench"), metavar="DIR",
                        help="where table, picture and figures go; default build/bench")
    parser.add_argument("--peer", metavar="DIR",
                        help="instead of the table of ceilings, make the one beside llama.cpp, whose llama-bench, "
                        "llama-batched-bench and llama-quantize are in DIR; without --only it goes into "
                        "docs/performance.md")
    parser.add_argument("--gpu", metavar="FILE", help="instead of measuring anything: put what ./dev gpu-prove wrote into "
                        "FILE into docs/performance.md")
    parser.add_argument("--docs", action="store_true", help="also put table and picture into docs/performance.md")
    parser.add_argument("--bin", default=os.path.join(CHECKOUT, "build", "release", "bin"), metavar="DIR",
                        help="Sluice's programs; default build/release/bin")
    flags = parser.parse_args()
    if flags.quick:
        flags.rounds = 1
    if flags.rounds < 1 or flags.threads < 1:
        parser.error("--rounds and --threads: at least 1")
    if flags.only and flags.docs:
        parser.error("--docs takes whole tables: without --only")
    try:
        flags.peer = flags.peer and peer.folder_of(flags.peer)
    except ValueError as error:
        parser.error(str(error))
    return flags


def make_models(flags, names):
    """The folders by name, and why some are missing."""
    folders, missing = {}, {}
    for name in sorted(set(names)):
        try:
            folders[name] = models.make(name, flags.models, say)
        except models.Unavailable as reason:
            missing[name] = str(reason)
            say(f"SKIPPED: everything that needs {name}: {reason}")
    return folders, missing


class Run:
    def __init__(self, flags, folders, missing):
        self.flags, self.folders, self.missing = flags, folders, missing
        self.programs = programs.Programs(flags.bin, flags.threads)
        self.samples = {}  # row: [(ceiling, reached), ...]
        self.notes = {}    # row: why there is none
        self.failed = False
        self.ceilings = [self.programs.ceilings()]
        self.begin = time.monotonic()
        self.done = 0

    def compare(self, comparison, beside, round_number, total):
        """One turn of each program; the sample is (ceiling, Sluice's rate, the peer's)."""
        self.done += 1
        title = f"[{self.done:2}/{total}] round {round_number + 1}, {comparison.title}"
        absent = [self.missing[name] for name in comparison.models if name in self.missing]
        if absent:
            self.notes[comparison.title] = f"skipped: {absent[0]}"
            return
        context = self._context(round_number)
        try:
            report, ours, theirs = peer.compare(comparison, context, beside, say)
        except programs.Failed as error:
            say(f"{title}: FAILED: {error}")
            self.notes[comparison.title] = f"failed: {error}"
            self.failed = True
            return
        self.ceilings.append(self.programs.ceilings())
        ceiling = comparison.ceiling(context, report, *self._recently())
        self.samples.setdefault(comparison.title, []).append((ceiling, ours, theirs))
        say(f"{title}: {ours:.4g} beside {theirs:.4g} tok/s, {ours / theirs:.2f}; ceiling {ceiling:.4g}"
            f" ({time.monotonic() - self.begin:.0f} s)")

    def measure(self, measurement, round_number, total):
        self.done += 1
        title = f"[{self.done:2}/{total}] round {round_number + 1}, {measurement.title}"
        absent = [self.missing[name] for name in measurement.models if name in self.missing]
        if absent:
            self.notes.update({row: f"skipped: {absent[0]}" for row in measurement.rows})
            return
        taken = []
        try:
            # What is yielded is complete in itself, so a later failure does not spoil it.
            for sample in measurement.run(self._context(round_number)):
                taken.append(sample)
        except programs.Failed as error:
            say(f"{title}: FAILED: {error}")
            self.notes.update({row: f"failed: {error}" for row in measurement.rows})
            self.failed = True
        self.ceilings.append(self.programs.ceilings())
        for row, ceiling, reached in taken:
            self._add(title, row, ceiling(*self._recently()) if callable(ceiling) else ceiling, reached)

    def _add(self, title, row, ceiling, reached):
        self.samples.setdefault(row, []).append((ceiling, reached))
        unit, share = rows.ROWS[row].unit, rows.share(rows.ROWS[row], ceiling, reached)
        say(f"{title}: {row} {reached:.4g} {unit}, {100 * share:.0f}% of {ceiling:.4g}"
            f" ({time.monotonic() - self.begin:.0f} s)")

    def _context(self, round_number):
        return rows.Context(self.programs, self.folders, round_number, models.num_weights, models.unread_weights)

    def _recently(self):
        """Bandwidth and the peak of products with BF16 weights, on average right before and after a measurement."""
        def mean(name):
            return (self.ceilings[-2][name] + self.ceilings[-1][name]) / 2
        return mean("bytes_per_second"), mean("bf16_operations_per_second") or mean("f32_operations_per_second")

    def median_ceilings(self):
        return {name: rows.median([one[name] for one in self.ceilings]) for name in self.ceilings[0]}


def put(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def change_document(change, *arguments):
    path = os.path.join(CHECKOUT, "docs", "performance.md")
    with open(path) as file:
        document = change(file.read(), *arguments)
    put(path, document)


def write_peer(flags, run, load, comparisons, build):
    line = report.machine_line(machine.name(), flags.threads, run.median_ceilings(), flags.rounds, load)
    text = f"{line} llama.cpp: {build}.\n\n{peer.table(peer.summarise(comparisons, run.samples, run.notes))}"
    put(os.path.join(flags.out, "peer.md"), text)
    put(os.path.join(flags.out, "peer.json"), json.dumps(
        {"machine": line, "samples": run.samples, "ceilings": run.ceilings, "notes": run.notes}, indent=1) + "\n")
    if not flags.only:
        change_document(report.put_block, machine.kind().heading, text, report.PEER_BEGIN, report.PEER_END)
    say(f"written: {', '.join(os.path.join(os.path.relpath(flags.out), name) for name in ('peer.md', 'peer.json'))}")
    print(text, end="")


def write(flags, run, load, wanted):
    results = [one for one in rows.summarise(run.samples, run.notes) if one.row in wanted]
    line = report.machine_line(machine.name(), flags.threads, run.median_ceilings(), flags.rounds, load)
    picture = report.svg(line, results)
    outputs = {"performance.svg": picture, "performance.md": report.markdown(line, results, "performance.svg"),
               "performance.json": json.dumps({"machine": line, "samples": run.samples, "ceilings": run.ceilings,
                                               "notes": run.notes}, indent=1) + "\n"}
    for name, text in outputs.items():
        put(os.path.join(flags.out, name), text)
    if flags.docs:
        kind = machine.kind()
        change_document(report.put_block, kind.heading, report.markdown(line, results, kind.picture))
        put(os.path.join(CHECKOUT, "docs", kind.picture), picture)
    say(f"written: {', '.join(os.path.join(os.path.relpath(flags.out), name) for name in outputs)}")
    print(f"{line}\n\n{report.table(results)}", end="")


def write_gpu(path):
    with open(path) as file:
        seen = json.load(file)
    if seen["device"] == "cpu":
        sys.exit(f"./dev bench: {path} is of a CPU, on which gpu-prove only tries itself")
    text = gpu_report.markdown(seen)
    change_document(report.insert, text, gpu_report.BEGIN, gpu_report.END)
    print(text, end="")
    return 0


def main():
    flags = parse_flags()
    if flags.gpu:
        return write_gpu(flags.gpu)
    candidates = peer.COMPARISONS if flags.peer else rows.MEASUREMENTS
    chosen = [one for one in candidates if flags.only.lower() in one.title.lower()]
    if not chosen:
        sys.exit(f"./dev bench: no measurement is called like \"{flags.only}\": "
                 + ", ".join(one.title for one in candidates))
    load = machine.load()
    if load > 0.5:
        say(f"NOTE: other programs run on this machine (load average {load:.2f}); shares suffer less than speeds")
    folders, missing = make_models(flags, [name for one in chosen for name in one.models])
    run = Run(flags, folders, missing)
    total = flags.rounds * len(chosen)
    beside = flags.peer and peer.Peer(flags.peer, flags.threads, flags.models)
    for round_number in range(flags.rounds):
        for one in chosen:
            if beside:
                run.compare(one, beside, round_number, total)
            else:
                run.measure(one, round_number, total)
    if beside:
        write_peer(flags, run, load, chosen, beside.build)
    else:
        write(flags, run, load, [rows.ROWS[row] for one in chosen for row in one.rows])
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
