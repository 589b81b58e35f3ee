"""Shows on a machine with a GPU what only such a machine can show: `./dev gpu-prove`.

Runs its parts one after another, the most valuable first, and writes one JSON file after each, so that whatever ends it
leaves what was seen. A part that finds something wrong does not keep the others from running. Exit code 0: nothing failed;
1: something did; what was skipped is named.
"""

import argparse
import json
import os
import platform
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import parts  # noqa: E402
from run import Failed, Skipped  # noqa: E402

FORMAT = 1  # of the file


def parse_flags():
    parser = argparse.ArgumentParser(prog="gpu-prove", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0", help="default cuda:0; cpu tries the script with small models")
    parser.add_argument("--gpu_instructions", default="auto", choices=["auto", "mma", "wgmma", "wgmma_pipeline"],
                        help="the fastest that the GPU is to multiply with, in tests, benchmarks and services; auto: the "
                        "fastest that it has. What is left out is not tried: where it hangs or ends the process")
    parser.add_argument("--minutes", type=float, default=9.5, help="in all; parts that no time is left for are skipped")
    parser.add_argument("--only", default="", metavar="WORDS", help="parts whose name contains one of these, by comma")
    parser.add_argument("--out", default="gpu-prove.json", metavar="FILE", help="default gpu-prove.json; what it has of "
                        "other parts of the same device stays")
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "..", "build", "release", "bin"), metavar="DIR",
                        help="Sluice's programs")
    parser.add_argument("--tests", default=os.path.join(HERE, "..", "..", "build", "release", "tests"), metavar="DIR")
    parser.add_argument("--model", default=os.path.join(HERE, "..", "..", "models", "storyteller"), metavar="DIR",
                        help="a small trained model")
    parser.add_argument("--scratch", default="", metavar="DIR", help="for the random model, 16 GB; default: /dev/shm or "
                        "the folder for temporary files, whichever has room")
    parser.add_argument("--list", action="store_true", help="the parts and their times")
    flags = parser.parse_args()
    if flags.device == "cpu" and flags.gpu_instructions != "auto":
        parser.error("--gpu_instructions is for a GPU; it goes with --device cuda:0")
    return flags


def earlier(path, device):
    """The parts of a run before this one on the same device."""
    try:
        with open(path) as file:
            seen = json.load(file)
    except (OSError, ValueError):
        return {}
    return seen["parts"] if seen.get("format") == FORMAT and seen.get("device") == device else {}


class Report:
    def __init__(self, flags):
        self.path = flags.out
        self.seen = {"format": FORMAT, "device": flags.device, "host": platform.node(), "kernel": platform.release(),
                     "date": time.strftime("%Y-%m-%d"), "parts": earlier(flags.out, flags.device)}

    def put(self, name, result):
        self.seen["parts"][name] = result
        with open(self.path + ".part", "w") as file:
            json.dump(self.seen, file, indent=1)
            file.write("\n")
        os.replace(self.path + ".part", self.path)


def run_part(part, context):
    """What became of it: {"state": passed, failed or skipped, "seconds", "why", and its figures}, and "gpu_instructions"
    where not all were to be tried."""
    begin = time.monotonic()
    result = {"state": "passed"}
    if context.flags.gpu_instructions != "auto":
        result["gpu_instructions"] = context.flags.gpu_instructions
    context.begin(part.seconds)
    try:
        result["figures"] = part.run(context)
    except Skipped as why:
        result.update(state="skipped", why=str(why))
    except Failed as why:
        result.update(state="failed", why=str(why))
    except Exception as why:  # of the script itself: the other parts still count
        result.update(state="failed", why=f"{type(why).__name__}: {why}")
    if context.noted:
        result["noted"] = context.take_notes()
    result["seconds"] = round(time.monotonic() - begin, 1)
    return result


def main():
    flags = parse_flags()
    if flags.list:
        for part in parts.PARTS:
            print(f"{part.name:12} {part.seconds:4} s  {part.what}")
        return 0
    words = [word for word in flags.only.split(",") if word]
    chosen = [part for part in parts.PARTS if not words or any(word in part.name for word in words)]
    if not chosen:
        sys.exit(f"gpu-prove: no part is called like {flags.only}; --list names them")
    report = Report(flags)
    end = time.monotonic() + 60 * flags.minutes
    results = {}
    with parts.Context(flags, end) as context:
        if any(part.needs_large_model for part in chosen):
            context.begin_large_model()
        for number, part in enumerate(chosen, 1):
            left = end - time.monotonic()
            print(f"[{number:2}/{len(chosen)}] {part.name}: {part.what} ...", file=sys.stderr, flush=True)
            if left < part.least_seconds:
                result = {"state": "skipped", "why": f"{left:.0f} s were left of {60 * flags.minutes:.0f}", "seconds": 0}
            else:
                result = run_part(part, context)
            results[part.name] = result
            report.put(part.name, result)
            why = f": {result['why']}" if "why" in result else ""
            print(f"        {result['state']} after {result['seconds']} s{why}", file=sys.stderr, flush=True)
            for note in result.get("noted", []):
                print(f"        {note}", file=sys.stderr, flush=True)
    states = [result["state"] for result in results.values()]
    skipped = [name for name, result in results.items() if result["state"] == "skipped"]
    print(f"{states.count('passed')} passed, {states.count('failed')} failed, {len(skipped)} skipped"
          + (f" ({', '.join(skipped)})" if skipped else "") + f"; written: {flags.out}")
    return 1 if "failed" in states else 0


if __name__ == "__main__":
    sys.exit(main())
