"""A good client beside hostile ones, on real processes. Prints what it measured.

Usage: hostile_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import statistics
import time
import unittest

from beside import FULL, SLACK_S, Attack, Good, hold_to_bounds, peak_mib, resident_mib, show
from processes import Up, listeners_of, main


class HostileTest(unittest.TestCase):
    def under(self, name, count):
        hold_to_bounds(self, lambda: self.first_token_under(name, count))

    def first_token_under(self, name, count, requests=11):
        """The good client's first token while `name` is at work, against its quiet times before and after."""
        with Up() as up:
            good = Good(up.endpoint)
            good.several(10)
            before, _, texts = good.several(requests)
            with Attack(up.endpoint, name, count) as attack:
                begin, began = good.status(), time.monotonic()
                during, _, texts_during = good.several(requests)
                took, end = time.monotonic() - began, good.status()
                said = attack.wait() if name not in ("many_calls", "never_reads") else []
            after, _, _ = good.several(requests)
            quiet = statistics.median([before, after])
            step = took / max(end.num_steps - begin.num_steps, 1)
            show(f"{name} x {count}: first token {1000 * during:.1f} ms; quiet {1000 * quiet:.1f} ms, "
                 f"a step {1000 * step:.1f} ms")
            self.assertEqual(texts, texts_during, "another text")
            self.assertEqual(said, [])
            most = 2 * quiet + step + SLACK_S
            return None if during <= most else f"a first token after {during:.3f} s; accepted: {most:.3f} s"

    def test_three_thousand_calls_at_once(self):
        self.under("many_calls", 3000 if FULL else 600)

    def test_clients_that_ask_for_the_highest_priority(self):
        self.under("top_priority", 80 if FULL else 20)

    def test_lists_of_eight_million_token_ids(self):
        self.under("long_lists", 20 if FULL else 3)

    def test_clients_that_never_read(self):
        self.under("never_reads", 64 if FULL else 8)

    def test_clients_that_disconnect_in_a_loop(self):
        self.under("disconnects", 10_000 if FULL else 500)

    def test_requests_at_every_limit(self):
        self.under("at_the_limits", 30 if FULL else 2)

    def test_messages_that_are_small_until_they_are_parsed(self):
        with Up() as up:
            good = Good(up.endpoint)
            good.several(5)
            orchestrator = listeners_of(up.process.pid)["orchestrator"]
            before = peak_mib(orchestrator)
            with Attack(up.endpoint, "many_parts", 10 if FULL else 2) as attack:
                texts = good.several(5)[2]
                self.assertEqual(attack.wait(), [])
            after = peak_mib(orchestrator)
            show(f"the orchestrator held {before:.0f} MiB at most before, {after:.0f} with them")
            self.assertEqual(len(texts), 1)
            self.assertLess(after, before + 256)  # some copies of 20 MB; parsed they were 2,800 MiB

    def test_memory_stays_flat_and_every_block_comes_back(self):
        attacks = [("many_calls", 600 if FULL else 150), ("long_lists", 3 if FULL else 1),
                   ("never_reads", 16 if FULL else 8), ("disconnects", 500 if FULL else 150),
                   ("at_the_limits", 2 if FULL else 1)]
        # A pool that the first round fills: finished sequences stay in the prefix cache until then, and each block takes memory
        # when it is first written.
        with Up("--kv_cache_mib", "64") as up:
            good = Good(up.endpoint)
            sizes = []
            for _ in range(6 if FULL else 3):
                for name, count in attacks:
                    with Attack(up.endpoint, name, count) as attack:
                        if name != "never_reads":
                            attack.wait()
                        else:
                            good.several(5)
                deadline = time.monotonic() + 60
                while True:
                    status = good.status()
                    if status.num_running_sequences + status.num_waiting_sequences + status.num_paused_sequences == 0:
                        break
                    self.assertLess(time.monotonic(), deadline, "their sequences stay")
                self.assertEqual(status.kv_cache.num_used_blocks, 0)
                self.assertEqual(status.num_integrity_faults, 0)
                sizes.append(resident_mib(up))
            show("resident after each round of attacks, MiB: " + ", ".join(f"{size:.0f}" for size in sizes))
            # The first round warms allocators and pools up.
            self.assertLess(sizes[-1], 1.1 * sizes[0] + 32)


if __name__ == "__main__":
    main()
