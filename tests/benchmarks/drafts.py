"""How often guesses are right on a real text, and what that brings: storyteller (or another model) goes on with paragraphs
that begin to repeat themselves, with drafts and without, in turns.

Usage: drafts.py BIN_DIR TEXT_FILE [--model DIR] [--paragraphs N] [--tokens N]
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testing"))

from pipeline import Pipeline  # noqa: E402


def generate(sluice, endpoint, prompt, tokens, drafts):
    """The tokens, how many came a second from the first on, and what was drafted."""
    command = [sluice, "generate", "--endpoint", endpoint, "--prompt", prompt, "--max_tokens", str(tokens), "--temperature", "0",
               "--ignore_eos", "--json"] + ([] if drafts else ["--decline_drafts"])
    ids, arrivals = [], []  # of tokens: when each chunk came, and how many had come by then
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            event = json.loads(line)
            if event.get("finished"):
                usage = event["usage"]
            elif event["token_ids"]:
                ids += event["token_ids"]
                arrivals.append((time.monotonic(), len(ids)))
    (first, had), (last, have) = arrivals[0], arrivals[-1]
    return ids, (have - had) / (last - first), usage


def paragraphs(path, count):
    with open(path, encoding="utf-8") as file:
        long = [text for text in file.read().split("\n\n") if 300 < len(text) < 900]
    return long[:: max(1, len(long) // count)][:count]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("text")
    parser.add_argument("--model")
    parser.add_argument("--paragraphs", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=96)
    flags = parser.parse_args()
    sluice = os.path.join(flags.bin, "sluice")
    model = ["--model", flags.model] if flags.model else []
    up = Pipeline(sluice, "--log_level", "error", *model)
    try:
        endpoint = up.endpoint
        rates = {True: [], False: []}
        drafted = accepted = 0
        for text in paragraphs(flags.text, flags.paragraphs):
            prompt = text + "\n\n" + text[: len(text) // 3]
            outputs = {}
            for drafts in (False, True):
                outputs[drafts], rate, usage = generate(sluice, endpoint, prompt, flags.tokens, drafts)
                rates[drafts].append(rate)
            if outputs[True] != outputs[False]:
                sys.exit("drafts changed the tokens")
            drafted += usage["drafted_tokens"]
            accepted += usage["accepted_draft_tokens"]
        plain, guessed = (statistics.median(rates[drafts]) for drafts in (False, True))
        print(f"{len(rates[True])} paragraphs, {flags.tokens} tokens each: {drafted} tokens drafted, {accepted} right "
              f"({accepted / max(drafted, 1):.0%}); {plain:.0f} tokens/s without, {guessed:.0f} with: {guessed / plain:.2f} times")
    finally:
        up.stop()


if __name__ == "__main__":
    main()
