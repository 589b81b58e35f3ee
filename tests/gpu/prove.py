"""Shows on a machine with a GPU what only such a machine can show: `./dev gpu-prove`.

Runs its parts one after another, the most valuable first, and writes what they see into one JSON file as they go, so that
whatever ends it leaves what was seen. A part that finds something wrong does not keep the others from running, and one whose
time is up is "cut short": what it saw stays, and what is missing is named. A signal ends the time of all. Exit code 0: nothing
failed; 1: something did; what was cut short or skipped is named.
"""

import argparse
import json
import os
import platform
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import parts  # noqa: E402
from context import Context  # noqa: E402
from run import CutShort, Failed, Limit, Skipped, keep_logs  # noqa: E402

FORMAT = 1  # of the file


def parse_flags():
    parser = argparse.ArgumentParser(prog="gpu-prove", description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda:0", help="default cuda:0; cpu tries the script with small models")
    parser.add_argument("--gpu_instructions", default="auto", choices=["auto", "mma", "wgmma", "wgmma_pipeline", "wgmma_fp8"],
                        help="the fastest that the GPU is to multiply with, in tests, benchmarks and services; auto: the "
                        "fastest that the part `products` has found good, in this run or in one before it that FILE tells of. "
                        "What is left out is not tried: where it hangs or ends the process")
    parser.add_argument("--minutes", type=float, default=8.5, help="in all; parts that no time is left for are "
                        "skipped. Default 8.5: unpacking before and clearing up after it, all is over within ten")
    parser.add_argument("--only", default="", metavar="WORDS", help="parts of these names, by comma; a word that is no "
                        "part's name: those that contain it. Some then have more time")
    parser.add_argument("--out", default="gpu-prove.json", metavar="FILE", help="default gpu-prove.json; what it has of "
                        "other parts of the same device stays")
    parser.add_argument("--bin", default=os.path.join(HERE, "..", "..", "build", "release", "bin"), metavar="DIR",
                        help="Sluice's programs")
    parser.add_argument("--tests", default=os.path.join(HERE, "..", "..", "build", "release", "tests"), metavar="DIR")
    parser.add_argument("--model", default=os.path.join(HERE, "..", "..", "models", "storyteller"), metavar="DIR",
                        help="a small trained model")
    parser.add_argument("--scratch", default="", metavar="DIR", help="for the random model, 16 GB; default: /dev/shm or "
                        "the folder for temporary files, whichever has room")
    parser.add_argument("--large_model", default="", metavar="DIR", help="the random model of 8B: made where it is missing, "
                        "and kept. While DIR.part is there, it is waited for. Default: made anew, and removed")
    parser.add_argument("--logs", default="", metavar="DIR", help="all that each program writes, a file for each")
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

    def instructions(self):
        """That the last look at the ways to multiply has left."""
        return self.seen["parts"].get("products", {}).get("figures", {}).get("instructions", "auto")

    def put(self, name, result):
        """What was seen by a run before this one stays where this one had no time or no means to look."""
        if result["state"] == "skipped" and name in self.seen["parts"]:
            return
        self.seen["parts"][name] = result
        with open(self.path + ".part", "w") as file:
            json.dump(self.seen, file, indent=1)
            file.write("\n")
        os.replace(self.path + ".part", self.path)


def chosen_parts(only):
    words, names = [word for word in only.split(",") if word], [part.name for part in parts.PARTS]
    wanted = {name for word in words for name in ([word] if word in names else names) if word in name}
    return [part for part in parts.PARTS if not words or part.name in wanted]


def outcome(part, context):
    """(state, why) of a part that is run."""
    try:
        part.run(context)
    except Skipped as why:
        return "skipped", str(why)
    except CutShort as why:
        return "cut short", str(why)
    except Failed as why:
        return "failed", str(why)
    except Exception as why:  # of the script itself: the other parts still count
        return "failed", f"{type(why).__name__}: {why}"
    return "passed", ""


def run_part(part, context, report):
    """What became of it: {"state": passed, failed, cut short or skipped, "seconds", "why", "figures"}, "missing" of one that
    was cut short, and "gpu_instructions" where not all were to be tried."""
    begin = time.monotonic()

    def result(state, why):
        told = {"state": state, "why": why, "figures": context.figures, "noted": context.noted,
                "missing": context.missing if state == "cut short" else [],
                "gpu_instructions": context.instructions.replace("auto", "")}
        return {**{name: value for name, value in told.items() if value},
                "seconds": round(time.monotonic() - begin, 1)}

    def store():
        report.put(part.name, result("cut short", "gpu-prove ended while it ran"))

    context.begin(part.most_seconds(bool(context.flags.only)), store)
    return result(*outcome(part, context))


def attempt(part, context, report):
    left = context.whole.left()
    if left < part.least_seconds:
        result = {"state": "skipped", "why": f"{left:.0f} s were left of {60 * context.flags.minutes:.0f}", "seconds": 0}
    else:
        result = run_part(part, context, report)
    report.put(part.name, result)
    return result


def tell(result):
    why = f": {result['why']}" if "why" in result else ""
    missing = f"; missing: {', '.join(result['missing'])}" if "missing" in result else ""
    print(f"        {result['state']} after {result['seconds']} s{why}{missing}", file=sys.stderr, flush=True)
    for note in result.get("noted", []):
        print(f"        {note}", file=sys.stderr, flush=True)


def summary(results):
    """How many parts came to what, and which were not shown in full."""
    texts = []
    for state in ("passed", "failed", "cut short", "skipped"):
        names = [name for name, result in results.items() if result["state"] == state]
        if state in ("passed", "failed"):
            texts.append(f"{len(names)} {state}")
        elif names:
            texts.append(f"{len(names)} {state} ({', '.join(names)})")
    return ", ".join(texts)


def end_at_signals(limit):
    """Parts then end as if their time were up: with what they saw written, and the programs they started gone."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, lambda *_: limit.end_now())


def main():
    flags = parse_flags()
    if flags.list:
        for part in parts.PARTS:
            print(f"{part.name:12} {part.most_seconds(bool(flags.only)):4} s  {part.what}")
        return 0
    keep_logs(flags.logs)
    chosen = chosen_parts(flags.only)
    if not chosen:
        sys.exit(f"gpu-prove: no part is called like {flags.only}; --list names them")
    report, limit, results = Report(flags), Limit(60 * flags.minutes), {}
    end_at_signals(limit)
    with Context(flags, limit) as context:
        if flags.gpu_instructions == "auto":
            context.instructions = report.instructions()
        if any(part.needs_large_model for part in chosen):
            context.begin_large_model()
        for number, part in enumerate(chosen, 1):
            print(f"[{number:2}/{len(chosen)}] {part.name}: {part.what} ...", file=sys.stderr, flush=True)
            results[part.name] = attempt(part, context, report)
            tell(results[part.name])
    print(f"{summary(results)}; written: {flags.out}")
    return 1 if any(result["state"] == "failed" for result in results.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
