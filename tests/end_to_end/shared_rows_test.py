"""Rows that stay in memory of the device from process to process, while processes die.

The services are real; their devices are the tests' asynchronous ones, whose memory processes share as GPUs do (async_devices.h).
"""

import os
import shutil
import tempfile
import unittest

from processes import BIN, STORYTELLER, Client, Up, killing, main, request, text_of

ASYNC = ("embedding", "shard", "sampler")


def bin_folder(folder):
    """Fills `folder` with the programs, those that compute on asynchronous devices."""
    for name in os.listdir(BIN):
        path = os.path.abspath(os.path.join(BIN, name))
        if name == "sluice":
            shutil.copy2(path, folder)  # it looks for the others beside itself
        elif name.removeprefix("sluice-") not in ASYNC:
            os.symlink(path, os.path.join(folder, name))
    for name in ASYNC:
        os.symlink(os.path.abspath(os.path.join(BIN, "..", "tests", f"async_{name}")), os.path.join(folder, f"sluice-{name}"))
    return os.path.join(folder, "sluice")


class SharedRowsTest(unittest.TestCase):
    def test_streams_survive_kill_9_of_any_process_whose_memory_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            program = bin_folder(folder)
            with Up("--model", STORYTELLER, "--tp", "2", "--pp", "2", program=program) as up:
                expected = text_of(Client(up.endpoint).generate(request(200, seed=3)))
            environment = {**os.environ, "SLUICE_TEST_BACKEND": "async"}
            log = os.path.join(folder, "log")
            with open(log, "w") as stderr, \
                    Up("--model", STORYTELLER, "--tp", "2", "--pp", "2", program=program, env=environment, stderr=stderr) as up:
                client = Client(up.endpoint)
                self.assertEqual(text_of(client.generate(request(200, seed=3))), expected)
                self.assertEqual(self.rings(log), 3, "two stages and the sampler read the one before")
                for name in ("sluice-embedding", "sluice-sampler", "sluice-shard"):
                    for victim in up.pids(name):
                        with self.subTest(name=name, pid=victim):
                            before = self.rings(log)
                            self.assertEqual(text_of(client.generate(request(200, seed=3)), killing(victim)), expected)
                            self.assertGreater(self.rings(log), before, "rings are opened in the new epoch, too")
                with open(log) as file:
                    self.assertNotIn("ring-unused", file.read())

    def rings(self, log):
        with open(log) as file:
            return file.read().count(" ring-opened ")


if __name__ == "__main__":
    main()
