"""What tests of real processes share: `sluice up` and its children, the `sluice` commands, and a client made from the protos
alone. A test file's own arguments: BIN_DIR PROTO_PYTHON_DIR [unittest arguments].
"""

import itertools
import os
import signal
import subprocess
import sys
import unittest

BIN, PROTOS = sys.argv[1:3]
sys.path.insert(0, PROTOS)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testing"))

import grpc  # noqa: E402
from pipeline import Pipeline, children_of, free_ports, listeners_of  # noqa: E402,F401
from sluice.v1 import generation_pb2, status_pb2, tokenizer_pb2  # noqa: E402,F401

SLUICE = os.path.join(BIN, "sluice")
STORYTELLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "storyteller")
PROMPT = "Once upon a time there was a king who"
SERVICE = "/sluice.v1.GenerationService/"


class Up(Pipeline):
    """`sluice up`, from its ready line to SIGTERM."""

    def __init__(self, *flags, program=SLUICE, env=None, stderr=None):
        super().__init__(program, *flags, env=env, stderr=stderr)


class Client:
    """The public API over Debian's python3-grpcio, with messages from protoc and nothing else."""

    def __init__(self, endpoint):
        self.channel = grpc.insecure_channel(endpoint)

    def generate(self, request, timeout=120, metadata=()):
        call = self.channel.unary_stream(
            SERVICE + "Generate",
            request_serializer=generation_pb2.GenerateRequest.SerializeToString,
            response_deserializer=generation_pb2.GenerateResponse.FromString)
        return call(request, timeout=timeout, metadata=metadata)

    def unary(self, method, request, response_type, timeout=30):
        call = self.channel.unary_unary(
            SERVICE + method,
            request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString)
        return call(request, timeout=timeout)

    def raw(self, method, message, timeout=10):
        call = self.channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        return call(message, timeout=timeout)


def request(max_tokens, seed=None):
    message = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=max_tokens)
    message.stop.ignore_eos = True
    message.sampling.temperature = 0 if seed is None else 1
    if seed is not None:
        message.sampling.seed = seed
    return message


def text_of(responses, on_chunk=None):
    text = ""
    for response in responses:
        if response.HasField("chunk"):
            text += response.chunk.text
            if on_chunk:
                on_chunk()
    return text


def killing(pid, how=signal.SIGKILL, after=20):
    """For text_of, on each chunk: the process gets the signal once so many have come."""
    count = itertools.count(1)

    def on_chunk():
        if next(count) == after:
            os.kill(pid, how)
    return on_chunk


def sluice(*arguments, code=0, stdin=""):
    done = subprocess.run([SLUICE, *arguments], input=stdin, capture_output=True, text=True, timeout=120)
    if done.returncode != code:
        raise AssertionError(f"sluice {' '.join(arguments)}: exit {done.returncode}, expected {code}\n{done.stderr}")
    return done


class Orchestrator:
    """An orchestrator started by hand, whose other processes are not there."""

    def __init__(self, folder):
        self.socket = f"unix:{folder}/orchestrator"
        self.process = subprocess.Popen(
            [os.path.join(BIN, "sluice-orchestrator"), "--model", STORYTELLER, "--listen", self.socket,
             "--tokenizer", f"unix:{folder}/tokenizer", "--embedding", f"unix:{folder}/embedding",
             "--shards", f"unix:{folder}/shard", "--sampler", f"unix:{folder}/sampler"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


def main():
    unittest.main(module="__main__", argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
