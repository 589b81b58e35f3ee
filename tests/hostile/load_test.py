"""Many clients that mean no harm: ten times the capacity, tenants side by side, chats of growing history. Prints what it
measured.

Usage: load_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import statistics
import time
import unittest

from beside import FULL, SLACK_S, Attack, Good, Load, hold_to_bounds, show
from processes import PROMPT, Up, generation_pb2, main


class LoadTest(unittest.TestCase):
    def test_overload_takes_little_of_the_throughput(self):
        hold_to_bounds(self, self.throughput_under_overload)

    def throughput_under_overload(self):
        seconds = 60 if FULL else 8
        with Up() as up:
            good = Good(up.endpoint)

            def rate(streams):
                with Load(up.endpoint, streams):
                    good.wait_for_running(min(streams, 64))
                    time.sleep(1)  # the rate is one of a standing load
                    begin, began = good.status(), time.monotonic()
                    time.sleep(seconds)
                    end = good.status()
                    return (end.num_generated_tokens - begin.num_generated_tokens) / (time.monotonic() - began)

            at_capacity, overloaded, again = rate(64), rate(640), rate(64)
            peak = statistics.mean([at_capacity, again])
            show(f"64 streams: {at_capacity:.0f} and {again:.0f} tok/s; 640 streams: {overloaded:.0f} tok/s, "
                 f"{100 * overloaded / peak:.0f}%")
            least = (0.9 if FULL else 0.7) * peak
            return None if overloaded >= least else f"{overloaded:.0f} tok/s; accepted: {least:.0f} tok/s"

    def test_a_tenant_beside_one_with_a_hundred_times_its_load(self):
        hold_to_bounds(self, self.times_beside_a_busy_tenant)

    def times_beside_a_busy_tenant(self):
        """In turns with quiet: medians of the medians of each turn. Shows what the other one pays for it, too."""
        turns, requests = (5, 15) if FULL else (2, 9)
        quiet, beside, texts = [], [], set()
        undisturbed, sharing = [], []  # tokens per second of the busy tenant
        with Up() as up:
            good = Good(up.endpoint)

            def rate_while(work, own_tokens=0):
                begin, began = good.status().num_generated_tokens, time.monotonic()
                work()
                seconds = time.monotonic() - began
                return (good.status().num_generated_tokens - begin - own_tokens) / seconds

            good.several(10, 64)
            for _ in range(turns):
                quiet.append(good.several(requests, 64))
                with Attack(up.endpoint, "busy_tenant", 100):
                    good.wait_for_running(64)
                    undisturbed.append(rate_while(lambda: time.sleep(2)))
                    good.one(64)  # it was not there when they came: steps are long
                    sharing.append(
                        rate_while(lambda: beside.append(good.several(requests, 64)), own_tokens=64 * requests))
            quiet.append(good.several(requests, 64))
        for turn in quiet + beside:
            texts |= turn[2]
        first, token = (statistics.median(turn[i] for turn in beside) for i in (0, 1))
        quiet_first, quiet_token = (statistics.median(turn[i] for turn in quiet) for i in (0, 1))
        show(f"first token {1000 * first:.1f} ms beside, {1000 * quiet_first:.1f} ms alone: {first / quiet_first:.2f}; "
             f"a token {1000 * token:.2f} ms beside, {1000 * quiet_token:.2f} ms alone: {token / quiet_token:.2f}")
        alone, shared = statistics.median(undisturbed), statistics.median(sharing)
        show(f"the busy tenant: {alone:.0f} tok/s alone, {shared:.0f} beside it: {100 * shared / alone:.0f}%")
        self.assertEqual(len(texts), 1)
        most_first, most_token = 2 * quiet_first + SLACK_S, (1.5 if FULL else 3) * quiet_token
        if first <= most_first and token <= most_token:
            return None
        return (f"a first token after {first:.3f} s, accepted: {most_first:.3f} s; "
                f"a token in {token:.4f} s, accepted: {most_token:.4f} s")

    def test_chats_of_growing_history_compute_what_is_new(self):
        """64 conversations turn by turn: tokens sent as prompts against tokens computed."""
        chats, turns = (64, 8) if FULL else (16, 4)
        with Up() as up:
            good = Good(up.endpoint)
            histories = [f"Chat {i}. " + PROMPT for i in range(chats)]
            show("turn  tokens sent  computed  found again")
            for turn in range(turns):
                before = good.status()
                sent = 0
                for i, history in enumerate(histories):
                    message = generation_pb2.GenerateRequest(text=history, max_tokens=24)
                    message.stop.ignore_eos = True
                    message.sampling.temperature = 0
                    for response in good.generate(message):
                        histories[i] += response.chunk.text
                        sent += response.finished.usage.num_prompt_tokens
                    histories[i] += f" And then, said number {turn}, there was more."
                after = good.status()
                computed = after.num_computed_positions - before.num_computed_positions - 23 * chats
                found = after.kv_cache.num_hit_positions - before.kv_cache.num_hit_positions
                show(f"{turn + 1:4}  {sent:11}  {computed:8}  {100 * found / sent:10.0f}%")
                self.assertEqual(computed + found, sent)
                if turn > 0:
                    self.assertLess(computed, 0.6 * sent)


if __name__ == "__main__":
    main()
