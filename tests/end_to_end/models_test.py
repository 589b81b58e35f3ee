"""Several models of one `sluice up --config` behind its gateway: by name, asleep and awake, within their memory."""

import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.error
import urllib.request

from processes import SLUICE, STORYTELLER, Pipeline, children_of, main
import random_adapter

BODY = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
# Of a storyteller with 16 MiB for keys and values; a little more than it takes.
ONE_MIB = 40


def config(*models, **options):
    lines = [f"{name}: {value}" for name, value in {"http_port": 0, "kv_cache_mib": 16, **options}.items()]
    lines.append("models:")
    for model in models:
        lines.append("  - " + json.dumps({"model": STORYTELLER, **model}))
    return "\n".join(lines) + "\n"


class Models(Pipeline):
    """`sluice up --config` of a file with this text."""

    def __init__(self, text, *flags):
        self.file = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.file.write(text)
        self.file.flush()
        super().__init__(SLUICE, "--config", self.file.name, *flags, stderr=subprocess.DEVNULL)
        while self.lines[-1] and not self.lines[-1].startswith("http "):
            self.lines.append(self.process.stdout.readline().strip())
        self.http_address = self.lines[-1].rpartition(" ")[2]

    def call(self, path, body=None, token=""):
        """-> status, body"""
        request = urllib.request.Request(f"http://{self.http_address}{path}",
                                         data=None if body is None else json.dumps(body).encode())
        if token:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def text(self, **members):
        status, body = self.call("/v1/completions", {**BODY, **members})
        if status != 200:
            raise AssertionError(f"{status}: {body}")
        return body["choices"][0]["text"]

    def states(self):
        return {model["id"]: model["state"] for model in self.call("/v1/models")[1]["data"]}

    def await_state(self, name, state):
        deadline = time.monotonic() + 60
        while self.states()[name] != state:
            if time.monotonic() > deadline:
                raise AssertionError(f"{name} is {self.states()[name]}, not {state}")
            time.sleep(0.1)


def refusal(text):
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([SLUICE, "up", "--config", file.name], capture_output=True, text=True, timeout=60)
        return result.returncode, result.stderr


class ModelsTest(unittest.TestCase):
    def test_requests_go_to_the_model_they_name(self):
        with Models(config({"served_model_name": "one"}, {"served_model_name": "two", "weights": "int8"})) as up:
            self.assertEqual([line.split()[0] for line in up.lines], ["ready", "ready", "http"])
            self.assertEqual([line.split()[-1] for line in up.lines[:2]], ["one", "two"])
            status, listed = up.call("/v1/models")
            self.assertEqual((status, [model["id"] for model in listed["data"]]), (200, ["one", "two"]))
            self.assertEqual(listed["data"][0]["max_model_len"], 512)
            self.assertEqual(up.call("/v1/models/two")[1]["id"], "two")
            status, body = up.call("/v1/completions", {**BODY, "model": "two"})
            self.assertEqual((status, body["model"]), (200, "two"))
            # Whatever names none goes to the first; what comes before the name may be large.
            self.assertEqual(up.call("/v1/completions", BODY)[1]["model"], "one")
            late = {"user": "x" * 100_000, **BODY, "model": "two"}
            self.assertEqual(up.call("/v1/completions", late)[1]["model"], "two")
            self.assertEqual(up.call("/v2/models/two/ready"), (200, {"ready": True}))
            for path in ("/v1/completions", "/v1/models/three"):
                status, body = up.call(path, {**BODY, "model": "three"} if path == "/v1/completions" else None)
                self.assertEqual((status, body["error"]["code"]), (404, "model_not_found"))
            status, body = up.call("/v1/messages", {"model": "three", "max_tokens": 1, "messages": []})
            self.assertEqual((status, body["error"]["type"]), (404, "not_found_error"))

    def test_names_of_adapters_are_those_of_their_model(self):
        with tempfile.TemporaryDirectory() as folder:
            random_adapter.write(os.path.join(folder, "a"), STORYTELLER, seed=1, rank=4)
            with Models(config({"served_model_name": "one"},
                               {"served_model_name": "two", "adapters": {"a": os.path.join(folder, "a")}})) as up:
                listed = up.call("/v1/models")[1]["data"]
                self.assertEqual([(model["id"], model.get("parent")) for model in listed],
                                 [("one", None), ("two", None), ("a", "two")])
                self.assertEqual(up.call("/v1/models/a")[1]["parent"], "two")
                status, body = up.call("/v1/completions", {**BODY, "model": "a"})
                self.assertEqual((status, body["model"]), (200, "a"))
                self.assertEqual(up.text(model="one"), up.text(model="two"))
                self.assertNotEqual(body["choices"][0]["text"], up.text(model="two"))

    def test_a_model_sleeps_and_wakes(self):
        with Models(config({"served_model_name": "one"},
                           {"served_model_name": "two", "sleep_after": "1s", "asleep": "true"})) as up:
            self.assertEqual(up.lines[1], "asleep two")
            self.assertEqual(up.states(), {"one": "awake", "two": "asleep"})
            self.assertEqual(len([name for name in children_of(up.process.pid).values() if "shard" in name]), 1)
            expected = up.text(model="one")
            self.assertEqual(up.text(model="two"), expected)
            self.assertEqual(up.states()["two"], "awake")
            up.await_state("two", "asleep")
            self.assertEqual(len([name for name in children_of(up.process.pid).values() if "shard" in name]), 1)
            self.assertEqual(up.text(model="two"), expected)

    def test_models_make_room_for_each_other(self):
        sleepy = {"sleep_after": "1h", "asleep": "true"}
        with Models(config({"served_model_name": "a", **sleepy}, {"served_model_name": "b", **sleepy},
                           memory_mib=ONE_MIB)) as up:
            expected = up.text(model="a")
            self.assertEqual(up.states(), {"a": "awake", "b": "asleep"})
            self.assertEqual(up.text(model="b"), expected)
            self.assertEqual(up.states(), {"a": "asleep", "b": "awake"})
            # A stream in progress keeps its model, and whoever asks for the other waits for its end.
            with urllib.request.urlopen(urllib.request.Request(
                    f"http://{up.http_address}/v1/completions",
                    data=json.dumps({"model": "b", "prompt": "Once", "max_tokens": 200, "n": 4, "seed": 1,
                                     "ignore_eos": True, "stream": True}).encode()), timeout=120) as stream:
                stream.readline()
                self.assertEqual(up.text(model="a"), expected)
                self.assertTrue(stream.read().endswith(b"data: [DONE]\n\n"))
            self.assertEqual(up.states(), {"a": "awake", "b": "asleep"})

    def test_strangers_wake_nobody(self):
        with Models(config({"served_model_name": "a", "sleep_after": "1h", "asleep": "true"}),
                    "--api_key", "secret") as up:
            for path, body in (("/v1/completions", {**BODY, "model": "a"}), ("/v1/models", None)):
                self.assertEqual(up.call(path, body)[0], 401)
                self.assertEqual(up.call(path, body, token="guess")[0], 401)
            self.assertEqual(up.call("/v1/models", token="secret")[1]["data"][0]["state"], "asleep")
            self.assertEqual(up.call("/v1/completions", {**BODY, "model": "a"}, token="secret")[0], 200)

    def test_a_stream_survives_the_loss_of_each_process_of_its_model(self):
        with Models(config({"served_model_name": "a"},
                           {"served_model_name": "b", "sleep_after": "1h", "asleep": "true"})) as up:
            asked = {"model": "b", "prompt": "Once upon a time", "max_tokens": 300, "ignore_eos": True, "seed": 3}
            expected = up.call("/v1/completions", asked)[1]["choices"][0]["text"]
            orchestrators = up.pids("sluice-orchestrator")
            self.assertEqual(len(orchestrators), 2)
            with urllib.request.urlopen(urllib.request.Request(
                    f"http://{up.http_address}/v1/completions", data=json.dumps({**asked, "stream": True}).encode()),
                    timeout=120) as stream:
                text = json.loads(stream.readline()[6:])["choices"][0]["text"]
                for victim in [*orchestrators, *up.pids("sluice-shard")]:
                    os.kill(victim, signal.SIGKILL)
                for line in stream:
                    if line.startswith(b"data: {"):
                        text += json.loads(line[6:])["choices"][0]["text"]
            self.assertEqual(text, expected)

    def test_what_cannot_be_served_is_told_before_anything_starts(self):
        for text, expected in (
                (config({"kv_cache_mb": 1}), ":4: there is no option kv_cache_mb"),
                (config({"model": "/none"}), "none: /none: no such folder"),
                (config({}, memory_mib=20), "storyteller takes"),
                (config({"served_model_name": "a"}, {"served_model_name": "b"}, memory_mib=ONE_MIB),
                 "the models that are awake at first take more than 40 MiB: a "),
                (config({"weights": "int9"}), "--weights is \"int9\"; accepted: auto, f32")):
            code, said = refusal(text)
            self.assertNotEqual(code, 0)
            self.assertIn(expected, said)


if __name__ == "__main__":
    main()
