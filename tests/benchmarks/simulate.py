"""What `sluice simulate` says against what `sluice bench` measures: one model on this machine, its step costs fitted here, and
loads by Poisson arrivals at parts of what it can do. Prints p50 and p95 of the first token and of the time between tokens, and how
far the simulation is off. Skips (77) on a machine that does other things, whose costs are not the same from moment to moment.

Usage: simulate.py BIN_DIR [--model DIR] [--rates R,R,R] [--requests N] [--prompt_tokens P] [--max_tokens N]
                   [--within SHARE] [--any_machine] [bench's flags, such as --weights int8]
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIGURES = [(times, share) for times in ("first_token", "between_tokens") for share in ("p50", "p95")]
SKIPPED = 77

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("bin")
parser.add_argument("--model", default=str(ROOT / "models" / "storyteller"))
parser.add_argument("--rates", default="4,10,20", help="requests a second")
parser.add_argument("--requests", type=int, default=200)
parser.add_argument("--prompt_tokens", type=int, default=128)
parser.add_argument("--max_tokens", type=int, default=64)
parser.add_argument("--within", type=float, default=0.05, help="exit status 1 where a figure is further off")
parser.add_argument("--any_machine", action="store_true", help="measure on a busy machine, too")
OPTIONS, BENCH_FLAGS = parser.parse_known_args()


def sluice(*arguments):
    command = [os.path.join(OPTIONS.bin, "sluice"), *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def compared(costs, rate):
    """{figure: (measured, simulated)} in milliseconds, the same arrivals for both."""
    load = ["--arrivals", f"poisson:{rate}", "--requests", str(OPTIONS.requests), "--prompt_tokens", str(OPTIONS.prompt_tokens),
            "--max_tokens", str(OPTIONS.max_tokens), "--seed", "1", "--json"]
    measured = json.loads(sluice("bench", "--model", OPTIONS.model, *load, *BENCH_FLAGS))
    simulated = json.loads(sluice("simulate", "--costs", costs, *load))
    return {(times, share): (measured[f"{times}_ms"][share], 1000 * simulated[f"{times}_seconds"][share])
            for times, share in FIGURES}


def main():
    busy = os.getloadavg()[0] / os.cpu_count()
    if busy > 0.5 and not OPTIONS.any_machine:
        print(f"skipped: {busy:.1f} processes wait for each core; what steps cost would be theirs")
        return SKIPPED
    print(f"load of {busy:.1f} a core before it began\n\n"
          "| rate | figure | measured (ms) | simulated (ms) | off |\n|--:|---|--:|--:|--:|")
    furthest = 0
    with tempfile.TemporaryDirectory() as folder:
        costs = os.path.join(folder, "costs.json")
        sluice("bench", "--model", OPTIONS.model, "--fit", costs, *BENCH_FLAGS)
        for rate in OPTIONS.rates.split(","):
            for (times, share), (measured, simulated) in compared(costs, rate).items():
                off = simulated / measured - 1
                furthest = max(furthest, abs(off))
                print(f"| {rate} | {times.replace('_', ' ')} {share} | {measured:.2f} | {simulated:.2f} | {100 * off:+.1f} % |",
                      flush=True)
    print(f"\nfurthest off: {100 * furthest:.1f} %")
    return 1 if furthest > OPTIONS.within else 0


if __name__ == "__main__":
    sys.exit(main())
