#!/usr/bin/env python3
"""`sluice pull` before a hub on this host: pull_test.py FOLDER_OF_PROGRAMS."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from hub import Hub

HERE = os.path.dirname(os.path.abspath(__file__))
STORYTELLER = os.path.join(HERE, "..", "..", "..", "models", "storyteller")
MIB = 1 << 20


def files_of(folder):
    files = {}
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            with open(path, "rb") as file:
                files[name] = file.read()
    return files


def lines_of(path):
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        return len(file.readlines())


def made_files(size=40 * MIB):
    """What looks like a model: nobody reads it here."""
    return {"config.json": b'{"model_type": "llama"}', "model.safetensors": random.Random(7).randbytes(size),
            "pytorch_model.bin": b"x" * 5000, "README.md": b"# Tales\n", "onnx/model.safetensors": b"y" * 5000}


class PullTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = os.path.join(folder.name, "models")
        self.environment = {"PATH": os.environ["PATH"], "HOME": folder.name, "SLUICE_MODELS": self.store}

    def command(self, *arguments, environment=None):
        return subprocess.Popen([os.path.join(BIN, "sluice"), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env={**self.environment, **(environment or {})})

    def sluice(self, *arguments, environment=None):
        process = self.command(*arguments, environment=environment)
        out, err = process.communicate(timeout=60)
        return process.returncode, out, err

    def pull(self, hub, *arguments, name="tales/teller", environment=None):
        return self.sluice("pull", *arguments, name, environment={"HF_ENDPOINT": hub.endpoint, **(environment or {})})

    def pulled(self, name="tales/teller"):
        return files_of(os.path.join(self.store, name))

    def assert_pulled(self, hub, names):
        self.assertEqual({**{name: hub.files[name] for name in names}, ".sluice-commit": hub.commit.encode() + b"\n"},
                         self.pulled())
        self.assertEqual([".teller.lock", "teller"], sorted(os.listdir(os.path.join(self.store, "tales"))))

    def test_a_model_that_was_pulled_is_found_by_its_name(self):
        with Hub(files_of(STORYTELLER)) as hub:
            status, out, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assertIn("serve it with: sluice up --model tales/teller", out)
        for command in (["run", "--model", "tales/teller", "--max_tokens", "3", "Once"], ["plan", "--model", "tales/teller"]):
            status, out, err = self.sluice(*command)
            self.assertEqual(0, status, err)
        status, _, err = self.sluice("run", "--model", "tales/other", "Once")
        self.assertNotEqual(0, status)
        self.assertIn("to get it: sluice pull tales/other [NOT_FOUND]", err)

    def test_takes_what_serving_needs_and_once(self):
        with Hub(made_files()) as hub:
            status, out, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assertIn(f"tales/teller ({hub.commit[:12]}) is now in {self.store}/tales/teller: 2 files, 41.9 MB", out)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])
            self.assertGreater(len([path for path in hub.file_requests() if path.startswith("/cdn/")]), 2, "parts")
            before = len(hub.file_requests())
            status, out, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assertIn("is in", out)
            self.assertEqual(before, len(hub.file_requests()))

    def test_a_token_goes_to_the_hub_alone(self):
        with Hub(made_files()) as hub:
            hub.token = "hf_secret"
            status, _, err = self.pull(hub)
            self.assertNotEqual(0, status)
            self.assertIn("does not give tales/teller without a token", err)
            self.assertIn("Access to this model is restricted.", err)
            self.assertIn("HF_TOKEN", err)
            status, _, err = self.pull(hub, environment={"HF_TOKEN": "hf_wrong"})
            self.assertIn("to the owner of this token", err)
            file = os.path.join(self.environment["HOME"], "token")
            with open(file, "w") as out:
                out.write("hf_secret\n")
            hub.requests.clear()
            status, _, err = self.pull(hub, "--token_file", file)
            self.assertEqual(0, status, err)
            for path, _, authorization in hub.requests:
                self.assertEqual(None if path.startswith("/cdn/") else "Bearer hf_secret", authorization, path)
        status, _, err = self.sluice("pull", "--endpoint", "http://10.255.255.1", "tales/teller",
                                     environment={"HF_TOKEN": "hf_secret"})
        self.assertIn("is not encrypted, and a token is set", err)

    def test_goes_on_where_a_connection_broke(self):
        with Hub(made_files()) as hub:
            hub.cut_after, hub.cuts = 3 * MIB, 3
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])
            self.assertEqual(sum(len(hub.files[name]) for name in ("config.json", "model.safetensors")), hub.sent)

    def test_goes_on_where_it_was_interrupted(self):
        with Hub(made_files(80 * MIB)) as hub:
            hub.bytes_a_second = 60 * MIB
            process = self.command("pull", "--connections", "1", "tales/teller", environment={"HF_ENDPOINT": hub.endpoint})
            record = os.path.join(self.store, "tales/.teller.partial/model.safetensors.parts")
            deadline = time.monotonic() + 30
            while lines_of(record) < 3:  # two of five parts
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
            process.communicate()
            self.assertFalse(os.path.exists(os.path.join(self.store, "tales/teller")))
            hub.bytes_a_second, hub.sent = 0, 0
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])
            self.assertLessEqual(hub.sent, 48 * MIB + 1000)

    def test_ctrl_c_ends_it_at_once(self):
        with Hub(made_files(80 * MIB)) as hub:
            hub.bytes_a_second = 4 * MIB
            process = self.command("pull", "tales/teller", environment={"HF_ENDPOINT": hub.endpoint})
            while hub.sent < MIB:
                time.sleep(0.01)
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=10)
            self.assertNotEqual(0, process.returncode)
            self.assertLess(time.monotonic() - begin, 3)

    def test_waits_for_a_busy_hub(self):
        with Hub(made_files(MIB)) as hub:
            hub.busy = 1
            begin = time.monotonic()
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assertGreater(time.monotonic() - begin, 0.9, "Retry-After")

    def test_a_hub_without_ranges_will_do(self):
        with Hub(made_files()) as hub:
            hub.ranges = False
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])

    def test_keeps_nothing_that_is_wrong(self):
        weights = "model.safetensors"
        wrong = {"lfs": {"sha256": "0" * 64}}
        for listed, said in (({weights: wrong}, "model.safetensors: its digest is"),
                             ({"config.json": {"blobId": "1" * 40}}, "config.json: its digest is"),
                             ({weights: {"size": MIB // 2}}, "model.safetensors: more bytes than"),
                             ({weights: {"size": -1}}, "model.safetensors has no size"),
                             ({weights: {"lfs": {"sha256": "../../x"}}}, "lfs.sha256 of model.safetensors"),
                             ({weights: {"rfilename": "config.json"}}, "not one: rfilename")):
            with self.subTest(said), Hub(made_files(MIB)) as hub:
                hub.listed = listed
                status, _, err = self.pull(hub)
                self.assertNotEqual(0, status)
                self.assertIn(said, err)
                self.assertFalse(os.path.exists(os.path.join(self.store, "tales/teller")))

    def test_names_of_a_hub_stay_in_the_folder(self):
        files = {"model.safetensors": b"w" * 2000, "config.json": b"{}"}
        with Hub({**files, "../evil.json": b"{}", "/etc/evil.json": b"{}", ".evil.json": b"{}", "a\\b.json": b"{}"}) as hub:
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, files)

    def test_says_what_is_not_there(self):
        with Hub({"pytorch_model.bin": b"x" * 5000, "config.json": b"{}"}) as hub:
            _, _, err = self.pull(hub)
            self.assertIn("no weights in safetensors among its files", err)
            self.assertIn("it has pytorch_model.bin", err)
            _, _, err = self.pull(hub, name="tales/nobody")
            self.assertIn("has no model tales/nobody with a revision main", err)
            for name in ("teller", "../tales/teller", "tales/..", "a/b/c"):
                _, _, err = self.pull(hub, name=name)
                self.assertIn("is no name of a model in a hub", err)
        _, _, err = self.sluice("pull", "--endpoint", "ftp://hub", "tales/teller")
        self.assertIn("begins with https:// or http://", err)

    def test_one_file_of_many(self):
        files = {"tale-Q4_K_M.gguf": b"4" * 3000, "tale-Q8_0.gguf": b"8" * 5000, "config.json": b"{}"}
        with Hub(files) as hub:
            status, out, err = self.pull(hub, "--file", "*Q4_K_M.gguf")
            self.assertEqual(0, status, err)
            self.assertIn(f"sluice up --model {self.store}/tales/teller/tale-Q4_K_M.gguf", out)
            status, _, err = self.pull(hub, "--file", "*Q8_0.gguf")
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, ["tale-Q4_K_M.gguf", "tale-Q8_0.gguf"])

    def test_another_commit_takes_the_place_of_the_first(self):
        with Hub(made_files(MIB)) as hub:
            self.assertEqual(0, self.pull(hub)[0])
            hub.commit, hub.sent = "f" * 40, 0
            hub.files["config.json"] = b'{"model_type": "qwen2"}'
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])
            self.assertLess(hub.sent, 1000, "the weights are the same")
            status, _, err = self.pull(hub, "--revision", "v2")
            self.assertEqual(0, status, err)
            self.assertEqual(hub.files["config.json"], self.pulled("tales/teller@v2")["config.json"])
            _, _, err = self.sluice("plan", "--model", "tales/teller@v3")
            self.assertIn("sluice pull tales/teller --revision v3 [NOT_FOUND]", err)

    def test_needs_no_hub_for_what_is_there(self):
        with Hub(made_files(MIB)) as hub:
            self.assertEqual(0, self.pull(hub)[0])
            folder = os.path.join(self.store, "tales/teller")
            before = len(hub.requests)
            status, out, err = self.pull(hub, "--revision", hub.commit, "--out", folder)
            self.assertEqual((0, before), (status, len(hub.requests)), err)
            hub.busy = 1000
            process = self.command("pull", "tales/teller", environment={"HF_ENDPOINT": "http://127.0.0.1:1"})
            started = time.monotonic()
            out, err = process.communicate(timeout=120)
            self.assertLess(time.monotonic() - started, 15, "who has the model waits for the hub")
            self.assertEqual(0, process.returncode, err)
            self.assertIn("what was pulled before is used", err)
            self.assertIn("serve it with: sluice up --model tales/teller", out)

    def test_leaves_folders_of_others_alone(self):
        folder = os.path.join(self.environment["HOME"], "mine")
        os.makedirs(folder)
        with open(os.path.join(folder, "letter.txt"), "w") as out:
            out.write("Dear")
        with Hub(made_files(MIB)) as hub:
            status, _, err = self.pull(hub, "--out", folder)
        self.assertNotEqual(0, status)
        self.assertIn("was not made by sluice pull; accepted: a new or empty folder", err)
        self.assertEqual({"letter.txt": b"Dear"}, files_of(folder))

    def test_plaintext_tokens_stay_on_this_host(self):
        for host in ("localhost.example.com", "127.0.0.1.example.com", "localhost@example.com", "10.255.255.1"):
            _, _, err = self.sluice("pull", "--endpoint", f"http://{host}", "tales/teller", environment={"HF_TOKEN": "hf_secret"})
            self.assertIn("is not encrypted, and a token is set", err, host)

    def test_a_hub_without_ranges_is_asked_again(self):
        with Hub(made_files()) as hub:
            hub.ranges, hub.cut_after, hub.cuts = False, 3 * MIB, 1
            status, _, err = self.pull(hub)
            self.assertEqual(0, status, err)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])

    def test_the_second_of_two_waits_for_the_first(self):
        with Hub(made_files(MIB)) as hub:
            hub.bytes_a_second = MIB
            both = [self.command("pull", "tales/teller", environment={"HF_ENDPOINT": hub.endpoint}) for _ in range(2)]
            said = [process.communicate(timeout=60) for process in both]
            self.assertEqual([0, 0], [process.returncode for process in both], said)
            self.assert_pulled(hub, ["config.json", "model.safetensors"])
            self.assertLess(hub.sent, 1.5 * MIB)


if __name__ == "__main__":
    BIN = sys.argv.pop(1)
    unittest.main()
