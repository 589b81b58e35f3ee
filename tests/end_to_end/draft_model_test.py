"""A second model that drafts, over real processes: nobody depends on it."""

import os
import signal
import tempfile
import time
import unittest

from processes import (
    STORYTELLER, Client, Up, killing, listeners_of, main, request, sluice, status_pb2, text_of)

FLAGS = ("--tp", "2", "--pp", "2", "--draft", "none", "--draft_model", STORYTELLER, "--draft_policy", "always")


def without_drafts(message):
    message.drafts.decline = True
    return message


def copy_of_storyteller(folder, **replaced):
    """A folder that differs from the storyteller's in the files named; underscores stand for dots."""
    for name in os.listdir(STORYTELLER):
        text = replaced.get(name.replace(".", "_"))
        if text is None:
            os.symlink(os.path.abspath(os.path.join(STORYTELLER, name)), os.path.join(folder, name))
            continue
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


class DraftModelTest(unittest.TestCase):
    def status(self, client):
        return client.unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse)

    def await_draft_model(self, client, at_least):
        """Streams until the draft model is there again and has proposed so many tokens."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            text_of(client.generate(request(40, seed=1)))
            model = self.status(client).draft_model
            if model.ready and model.num_proposed_tokens >= at_least:
                return model
        self.fail(f"the draft model has not come back: {model}")

    def test_streams_do_not_notice_what_befalls_it(self):
        with Up(*FLAGS) as up:
            client = Client(up.endpoint)
            message = request(300, seed=9)
            expected = text_of(client.generate(without_drafts(request(300, seed=9))))
            self.await_draft_model(client, at_least=1)
            for name in ("draft-shard", "draft-sampler", "draft-embedding"):
                for how in (signal.SIGKILL, signal.SIGSTOP):
                    with self.subTest(name=name, how=how):
                        before = self.status(client)
                        victim = listeners_of(up.process.pid)[name]
                        self.assertEqual(text_of(client.generate(message), killing(victim, how)), expected)
                        up.await_replaced(victim)
                        self.await_draft_model(client, before.draft_model.num_proposed_tokens + 1)
            status = self.status(client)
            self.assertEqual(status.num_recoveries, 0)
            self.assertGreaterEqual(status.draft_model.num_recoveries, 3)
            self.assertEqual(status.num_integrity_faults, 0)

    def test_status_shows_its_processes(self):
        with Up(*FLAGS, "--draft_weights", "int8", "--draft_kv_cache_mib", "9") as up:
            client = Client(up.endpoint)
            self.await_draft_model(client, at_least=1)
            processes = {p.service: p for p in self.status(client).processes}
            self.assertIn("weights INT8", processes["draft-shard"].arithmetic)
            self.assertEqual(processes["draft-shard"].kv_bytes >> 20, 9)
            text = sluice("status", "--endpoint", up.endpoint).stdout
            for name in ("draft-embedding", "draft-shard", "draft-sampler"):
                self.assertRegex(text, rf"(?m)^{name} +\S+ +\S+ +ready ")
            self.assertRegex(text, r"(?m)^Draft model ready, \d+ sequences, \d+ tokens proposed in \d+ steps")

    def test_other_tokens_are_refused_by_name(self):
        with open(os.path.join(STORYTELLER, "tokenizer.json")) as file:
            tokenizer = file.read()
        with open(os.path.join(STORYTELLER, "config.json")) as file:
            config = file.read()
        for replaced, message in (({"tokenizer_json": tokenizer + "\n"}, "their tokenizer.json differ"),
                                  ({"config_json": config.replace("4096", "5000")},
                                   "5000 against 4096 in the vocabulary")):
            with tempfile.TemporaryDirectory() as folder:
                copy_of_storyteller(folder, **replaced)
                for command in (["up", "--port", "0"], ["run", "--max_tokens", "1", "Once"]):
                    refused = sluice(*command, "--draft_model", folder, code=1)
                    self.assertIn(f"the draft model {folder} has other tokens than ", refused.stderr)
                    self.assertIn(message, refused.stderr)

    def test_flags_about_it_need_it(self):
        for command in (["up"], ["run", "Once"], ["plan"], ["bench"]):
            for flag in (["--draft_weights", "int4"], ["--draft_kv_cache_mib", "8"]):
                if command == ["plan"] and flag[0] == "--draft_kv_cache_mib":
                    continue
                refused = sluice(*command, *flag, code=2)
                self.assertIn(f"{flag[0]} is about the draft model", refused.stderr)

    def test_run_writes_the_same_text(self):
        flags = ["run", "--max_tokens", "60", "--seed", "3", "Once upon a time"]
        self.assertEqual(sluice(*flags, "--draft_model", STORYTELLER, "--draft_weights", "int4").stdout,
                         sluice(*flags).stdout)


if __name__ == "__main__":
    main()
