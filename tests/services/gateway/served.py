"""A pipeline with its gateway, as `sluice up --http_port` starts them, and HTTP calls to it."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

STORYTELLER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "models", "storyteller")
TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
            "{% if tools %}tools: {{ tools | length }}\n{% endif %}"
            "{% if add_generation_prompt %}assistant:{% endif %}")


def children_of(pid):
    """{name of the program: [pids]} of the processes that `pid` started."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                name = os.path.basename(file.read().split(b"\0")[0].decode())
        except OSError:
            continue
        if fields[0] != "Z" and int(fields[1]) == pid:
            found.setdefault(name, []).append(int(entry))
    return found


class Served:
    """The storyteller with a chat template, behind gRPC and, unless told otherwise, HTTP, until stop(). `log`: a file for its log."""

    def __init__(self, bin_folder, *flags, http=True, log=None):
        self.bin = bin_folder
        self.folder = tempfile.mkdtemp()
        self.model = os.path.join(self.folder, "storyteller")
        shutil.copytree(STORYTELLER, self.model)
        with open(os.path.join(self.model, "chat_template.jinja"), "w") as file:
            file.write(TEMPLATE)
        self.process = subprocess.Popen(
            [os.path.join(bin_folder, "sluice"), "up", "--model", self.model, "--port", "0",
             *(["--http_port", "0"] if http else []), *flags],
            stdout=subprocess.PIPE, stderr=log, text=True)
        demo = "--demo" in flags
        self.lines = [self.process.stdout.readline().strip() for _ in range(1 + http + demo)]
        self.endpoint, *addresses = (line.split(" ")[-1] for line in self.lines)
        self.address = addresses[0] if http else None
        self.demo_token = addresses[1].rpartition("#demo=")[2] if demo else None

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.process.stdout.close()
        shutil.rmtree(self.folder)

    def kill(self, program):
        os.kill(children_of(self.process.pid)[program][0], signal.SIGKILL)

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
