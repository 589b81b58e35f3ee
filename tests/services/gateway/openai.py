"""OpenAI's API over a live pipeline, for the tests of its paths."""

import json
import subprocess
import sys
import tempfile
import unittest

from served import Served, call

BIN = sys.argv[1]
PROMPT = "Once upon a time there was a king who"


class Api:
    """A pipeline that grants some priorities, and calls to it."""

    def __init__(self, *flags):
        self.tenants = tempfile.NamedTemporaryFile("w", suffix=".json")
        json.dump({"default": {"priorities": [-3, -1, 0, 1]}}, self.tenants)
        self.tenants.flush()
        self.served = Served(BIN, "--tenants", self.tenants.name, *flags)

    def stop(self):
        self.served.stop()
        self.tenants.close()

    def call(self, method, path, body=None, headers=None):
        return call(self.served.address, method, path, body, headers)

    def complete(self, **fields):
        return self.call("POST", "/v1/completions", {"model": "storyteller", "prompt": PROMPT, "max_tokens": 12, "temperature": 0,
                                                     **fields})

    def chat(self, **fields):
        return self.call("POST", "/v1/chat/completions", {
            "model": "storyteller", "messages": [{"role": "user", "content": "Tell me of the king."}], "max_tokens": 12,
            "temperature": 0, **fields})

    def sluice(self, *arguments, stdin=""):
        """What the command prints that asks the same pipeline over gRPC."""
        done = subprocess.run([f"{BIN}/sluice", *arguments, "--endpoint", self.served.endpoint], input=stdin, capture_output=True,
                              text=True, timeout=120, check=True)
        return done.stdout

    def ids_of(self, text, *flags):
        return json.loads(self.sluice("tokenize", *flags, stdin=json.dumps(text) + "\n"))


class ApiTest(unittest.TestCase):
    """The tests of a class share a pipeline, which has these flags."""

    FLAGS = ()

    @classmethod
    def setUpClass(cls):
        cls.api = Api(*cls.FLAGS)
        cls.addClassCleanup(cls.api.stop)


def text_of(answer, index=0):
    """The text of a streamed choice."""
    return "".join(choice.get("text", choice.get("delta", {}).get("content") or "")
                   for event in answer.events[:-1] for choice in event["choices"] if choice["index"] == index)


def main():
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
