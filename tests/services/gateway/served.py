"""A pipeline with its gateway, as `sluice up --http_port` starts them, and HTTP calls to it."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "testing"))

from pipeline import Pipeline  # noqa: E402

STORYTELLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "models", "storyteller")
TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
            "{% if tools %}tools: {{ tools | length }}\n{% endif %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")


class Served(Pipeline):
    """The storyteller with a chat template, behind gRPC and, unless told otherwise, HTTP, until stop(). `log`: a file for its log."""

    def __init__(self, bin_folder, *flags, http=True, log=None):
        self.bin = bin_folder
        self.folder = tempfile.mkdtemp()
        self.model = os.path.join(self.folder, "storyteller")
        shutil.copytree(STORYTELLER, self.model)
        with open(os.path.join(self.model, "chat_template.jinja"), "w") as file:
            file.write(TEMPLATE)
        super().__init__(os.path.join(bin_folder, "sluice"), "--model", self.model,
                         *(["--http_port", "0"] if http else []), *flags, stderr=log)
        self.address = self.http_address

    def stop(self, seconds=30):
        super().stop(seconds)
        shutil.rmtree(self.folder)

    def kill(self, program):
        os.kill(self.pids(program)[0], signal.SIGKILL)

    def status(self):
        done = subprocess.run([os.path.join(self.bin, "sluice"), "status", "--endpoint", self.endpoint, "--json"],
                              capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout)

    def wait_until_idle(self, seconds=20):
        """Until no sequence runs or waits; the number that still do."""
        end = time.monotonic() + seconds
        while True:
            status = self.status()
            left = status["num_running_sequences"] + status["num_waiting_sequences"]
            if left == 0 or time.monotonic() > end:
                return left


class Answer:
    """A response: status, headers (lower-case) and body, as text and as JSON."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.getheaders()}
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def error(self):
        return self.json["error"]

    @property
    def events(self):
        """The data of server-sent events, parsed but for OpenAI's last."""
        data = [line[6:] for line in self.text.split("\n") if line.startswith("data: ")]
        return [item if item == "[DONE]" else json.loads(item) for item in data]


def call(address, method, path, body=None, headers=None, timeout=120):
    connection = http.client.HTTPConnection(address, timeout=timeout)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body)
        connection.request(method, path, data, {"content-type": "application/json", **(headers or {})})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def connect(address, timeout=60):
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout)


def read_all(connection):
    """What comes until the other side closes."""
    data = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece
