"""What HTTP costs: the same load over gRPC and through the gateway, in turns, and what a client in Node.js gets.

Usage: gateway.py BIN_DIR [--rounds N] [--streams 64] [--node_streams 1,8] [--draft none|ngram]

Prints medians over the rounds and their ratios: the rate of tokens and the time to the first one through the gateway, over
those through gRPC, and gRPC's to itself; tokens per second of Node.js's own HTTP client; and what a stream costs the gateway that
waits, in memory.
Both sides send the same prompts, of which each is new to the server; without --draft ngram every token takes a step of its own.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "services", "gateway"))

import random_prompts  # noqa: E402
from served import STORYTELLER, Served  # noqa: E402
from waiting_streams import waiting_streams  # noqa: E402

PROMPT_TOKENS, MAX_TOKENS, REQUESTS, IDLE_STREAMS = 16, 128, 4, 1000


def vocabulary_size():
    with open(os.path.join(STORYTELLER, "config.json")) as file:
        return json.load(file)["vocab_size"]


def over_grpc(bin_folder, endpoint, streams, seed, drafts):
    done = subprocess.run([os.path.join(bin_folder, "sluice"), "bench", "--endpoint", endpoint, "--json", "--seed", str(seed),
                           "--prompt_tokens", str(PROMPT_TOKENS), "--max_tokens", str(MAX_TOKENS), "--concurrency", str(streams),
                           "--requests", str(REQUESTS * streams), *(["--allow_drafts"] if drafts else [])], check=True,
                          capture_output=True, text=True)
    figures = json.loads(done.stdout)
    return {"rate": figures["generated_tokens"] / figures["wall_seconds"], "first_ms": figures["first_token_ms"]["p50"]}


def gateway_of(served):
    return served.pids("sluice-gateway")[0]


def cpu_seconds(process):
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def over_http(bin_folder, served, streams, seed, drafts):
    # With a salt: what came over gRPC is not found again.
    bodies = [json.dumps({"prompt": random_prompts.prompt(seed, number, PROMPT_TOKENS, vocabulary_size()), "temperature": 0,
                          "max_tokens": MAX_TOKENS, "ignore_eos": True, "stream": True, "cache_salt": f"http {seed}",
                          "decline_drafts": not drafts}) for number in range(REQUESTS * streams)]
    before = cpu_seconds(gateway_of(served))
    done = subprocess.run([os.path.join(bin_folder, "sluice-http-load"), "--port", served.address.rsplit(":", 1)[1], "--streams",
                           str(streams)], input="\n".join(bodies), check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    tokens = len(bodies) * MAX_TOKENS
    figures["rate"] = tokens / figures["seconds"]
    return {**figures, "cpu_us": 1e6 * (cpu_seconds(gateway_of(served)) - before) / tokens}


def from_node(address, streams, turn, drafts):
    done = subprocess.run(["node", os.path.join(HERE, "node_load.mjs"), address, str(streams), "4", str(turn),
                           "ngram" if drafts else "none"], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)["tokens_per_second"]


def memory_kib(process):
    with open(f"/proc/{process}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def idle_mib(served):
    """What so many streams that wait take of the gateway's memory."""
    before = memory_kib(gateway_of(served))
    with waiting_streams(served.address, IDLE_STREAMS):
        return (memory_kib(gateway_of(served)) - before) / 1024


def median_ratios(name, turns):
    """Of turns that followed each other, as the machine's speed changes from moment to moment: the gateway over the mean of gRPC
    before and after it, and gRPC after over gRPC before, which is what a ratio of 1 looks like here."""
    return (statistics.median(2 * through[name] / (before[name] + after[name]) for before, through, after in turns),
            statistics.median(after[name] / before[name] for before, _, after in turns))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin_folder")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--node_streams", default="1,8")
    parser.add_argument("--draft", choices=("none", "ngram"), default="none")
    flags = parser.parse_args()
    drafts = flags.draft != "none"
    served = Served(flags.bin_folder, "--max_queued_sequences", "2048", "--log_level", "warning")
    try:
        over_http(flags.bin_folder, served, flags.streams, flags.rounds, drafts)  # warm
        turns = [(over_grpc(flags.bin_folder, served.endpoint, flags.streams, 2 * round, drafts),
                  over_http(flags.bin_folder, served, flags.streams, round, drafts),
                  over_grpc(flags.bin_folder, served.endpoint, flags.streams, 2 * round + 1, drafts)) for round in range(flags.rounds)]
        for name, unit in (("rate", "tokens/s"), ("first_ms", "ms to the first token")):
            direct, through = (statistics.median(turn[i][name] for turn in turns) for i in (0, 1))
            ratio, control = median_ratios(name, turns)
            print(f"{flags.streams} streams: gRPC {direct:.1f} {unit}, gateway {through:.1f}, ratio {ratio:.3f} (gRPC to itself "
                  f"{control:.3f})")
        cpu = statistics.median(through["cpu_us"] for _, through, _ in turns)
        print(f"{flags.streams} streams: {cpu:.1f} us of the gateway's processor time for a token")
        for streams in map(int, flags.node_streams.split(",")):
            rates = [from_node(served.address, streams, turn, drafts) for turn in range(flags.rounds)]
            print(f"Node.js, {streams} streams: {statistics.median(rates):.0f} tokens/s, best {max(rates):.0f}")
        print(f"{IDLE_STREAMS} streams that wait: {idle_mib(served):.1f} MiB of the gateway's memory")
    finally:
        served.stop()


if __name__ == "__main__":
    main()
