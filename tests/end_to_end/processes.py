"""What tests of real processes share: `sluice up` and its children, the `sluice` commands, and a client made from the protos
alone. A test file's own arguments: BIN_DIR PROTO_PYTHON_DIR [unittest arguments].
"""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
import unittest

BIN, PROTOS = sys.argv[1:3]
sys.path.insert(0, PROTOS)

import grpc  # noqa: E402
from sluice.v1 import generation_pb2, status_pb2, tokenizer_pb2  # noqa: E402,F401

SLUICE = os.path.join(BIN, "sluice")
STORYTELLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "models", "storyteller")
PROMPT = "Once upon a time there was a king who"
SERVICE = "/sluice.v1.GenerationService/"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def children_of(pid):
    """{pid: name of the program} of the processes that `pid` started."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == pid:
            found[int(entry)] = os.path.basename(arguments[0].decode())
    return found


def listeners_of(pid):
    """{name: pid} of the services that `pid` started: by their sockets, such as "shard-0-1"; "orchestrator" is on a port."""
    found = {}
    for child in children_of(pid):
        try:
            with open(f"/proc/{child}/cmdline", "rb") as file:
                arguments = file.read().decode().split("\0")
        except OSError:
            continue
        if "--listen" not in arguments:
            continue
        address = arguments[arguments.index("--listen") + 1]
        found[os.path.basename(address) if address.startswith("unix:") else "orchestrator"] = child
    return found


class Up:
    """`sluice up`, from its ready line to SIGTERM."""

    def __init__(self, *flags, program=SLUICE, env=None, stderr=None):
        self.port = free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [program, "up", "--port", str(self.port), *flags], stdout=subprocess.PIPE, stderr=stderr, text=True, env=env)
        self.ready = self.process.stdout.readline().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def pids(self, name):
        """Of its processes of that program."""
        return sorted(pid for pid, program in children_of(self.process.pid).items() if program == name)

    def await_replaced(self, pid):
        """Until the process is none of its own any more: a stream may be over before a death is seen."""
        deadline = time.monotonic() + 60
        while pid in children_of(self.process.pid):
            if time.monotonic() > deadline:
                raise AssertionError(f"process {pid} is still there")
            time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        code = self.process.wait(30)
        self.process.stdout.close()
        return code


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
