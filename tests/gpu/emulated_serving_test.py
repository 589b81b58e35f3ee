"""Pipelines of processes that share the emulated GPU (tests/gpu/emulator): what gpu-prove shows of a GPU, with a model and
prompts that such a GPU gets through in seconds. Here ranks read each other's memory and their streams wait for flags, or have a GPU each and meet over NCCL.

Arguments: the folder of Sluice's programs, and that of the emulated NCCL."""

import os
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import serving  # noqa: E402
from context import FP8, Context  # noqa: E402
from run import Limit  # noqa: E402

NCCL = sys.argv.pop()
BIN = sys.argv.pop()
REQUESTS = serving.Requests(lengths=(1, 7, 40), tokens=12, long_tokens=60, vocabulary=512)
ARRANGEMENTS = (["--tp", "1"], ["--tp", "2"], ["--tp", "4"], ["--tp", "2", "--pp", "2"])


class EmulatedServing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sluice-emulated-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.model = os.path.join(cls.folder.name, "model")
        subprocess.run([os.path.join(BIN, "sluice-random-model"), "tiny", cls.model], check=True)

    def context(self, instructions="auto", device="cuda:0"):
        flags = types.SimpleNamespace(bin=BIN, tests=BIN, device=device, model=self.model, scratch="",
                                      gpu_instructions=instructions)
        context = self.enterContext(Context(flags, Limit(900)))
        context.begin(900)
        return context

    def test_ranks_and_stages_have_the_bits_of_one_process(self):
        context = self.context()
        serving.same_bits(context, [], ARRANGEMENTS, REQUESTS)
        # The first shard reads what the embedding has in the GPU's memory, and every rank of a stage what the one before has.
        self.assertEqual({name: rings["unused"] for name, rings in context.figures["rings"].items()},
                         {" ".join(flags): [] for flags in ARRANGEMENTS})
        self.assertGreater(context.figures["rings"]["--tp 2 --pp 2"]["opened"], context.figures["rings"]["--tp 2"]["opened"])
        self.assertEqual(context.noted, [])

    def test_ranks_have_them_by_portable_instructions(self):
        serving.same_bits(self.context("mma"), [], (["--tp", "2"],), REQUESTS)

    def test_ranks_have_them_in_fp8(self):
        serving.same_bits(self.context(), FP8, (["--tp", "4"],), REQUESTS)

    def test_stream_survives_the_death_of_each_process(self):
        context = self.context()
        serving.survive_deaths(context, ("shard-0-1", "shard-0-0", "sampler", "embedding"), REQUESTS)
        self.assertEqual(context.missing, [])

    def context_of_gpus(self):
        """Where each rank has a GPU of its own."""
        self.enterContext(mock.patch.dict(os.environ, SLUICE_EMULATED_GPUS="4", LD_LIBRARY_PATH=NCCL))
        return self.context(device="cuda")

    def test_ranks_over_nccl_have_the_bits_of_one_process(self):
        context = self.context_of_gpus()
        serving.same_bits(context, [], (["--tp", "2"], ["--tp", "4"], ["--tp", "2", "--pp", "2"]), REQUESTS)
        self.assertEqual(context.noted, [])  # all steps were recorded, alike

    def test_stream_survives_the_death_of_a_rank_of_nccl(self):
        context = self.context_of_gpus()
        serving.survive_deaths(context, ("shard-0-1", "shard-0-0"), REQUESTS)
        self.assertEqual(context.missing, [])


if __name__ == "__main__":
    unittest.main()
