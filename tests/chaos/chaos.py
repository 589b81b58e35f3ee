"""Real processes under faults: runs `sluice up`, keeps requests of every kind in progress, and breaks something every second
or two. Writes down what happened; check.py, which shares nothing with this, says whether it was right.

Usage: chaos.py BIN_DIR PROTO_PYTHON_DIR [--minutes N] [--seed N] [--history FILE] [--tp N] [--pp N] [--hang_timeout S]
"""

import argparse
import ctypes
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

parser = argparse.ArgumentParser(usage=__doc__)
parser.add_argument("bin")
parser.add_argument("protos")
parser.add_argument("--minutes", type=float, default=1)
parser.add_argument("--seed", type=int, default=0, help="of what is asked and broken; 0: drawn")
parser.add_argument("--history", default="")
parser.add_argument("--tp", type=int, default=2)
parser.add_argument("--pp", type=int, default=2)
parser.add_argument("--streams", type=int, default=4, help="calls in progress")
parser.add_argument("--hang_timeout", type=float, default=2)
OPTIONS = parser.parse_args()
sys.path.insert(0, OPTIONS.protos)

import grpc  # noqa: E402
from sluice.v1 import generation_pb2, status_pb2  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "testing"))
from pipeline import Pipeline, listeners_of  # noqa: E402

SERVICE = "/sluice.v1.GenerationService/"
PIDFD_GETFD = 438  # of every architecture
LONGEST_CALL = 90  # seconds, after which a stream counts as one that does not end


class History:
    """One JSON object on a line for everything that happens."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8")
        self.lock = threading.Lock()
        self.begun = time.monotonic()

    def add(self, event, **fields):
        line = json.dumps({"t": round(time.monotonic() - self.begun, 4), "event": event, **fields})
        with self.lock:
            self.file.write(line + "\n")
            self.file.flush()


# ---- The pipeline ----


def start(log):
    """`sluice up`; its log goes to a file."""
    up = Pipeline(os.path.join(OPTIONS.bin, "sluice"), "--tp", str(OPTIONS.tp),
                  "--pp", str(OPTIONS.pp), "--hang_timeout", str(OPTIONS.hang_timeout), stderr=log)
    if not up.is_ready:
        raise SystemExit("chaos: the pipeline did not come up")
    return up


def stop(up):
    if up.stop() < 0:
        raise SystemExit("chaos: `sluice up` did not end")


# ---- Requests ----


def generate(**fields):
    request = generation_pb2.GenerateRequest(**fields)
    request.stop.ignore_eos = True
    return request


def requests_of_every_kind():
    """{name: request}. A request without a seed is greedy; what its name says is what is special about it."""
    king = "Once upon a time there was a king who"
    greedy = generate(text=king, max_tokens=120)
    greedy.sampling.temperature = 0
    seeded = generate(text=king, max_tokens=150)
    seeded.sampling.seed = 11
    several = generate(text="The little dog", max_tokens=80, n=3)
    several.sampling.seed = 12
    long_prompt = generate(text=(king + " lived in a house by the sea. ") * 15, max_tokens=60)
    long_prompt.sampling.seed = 13
    stopped = generate(text="She said", max_tokens=200)
    stopped.stop.stop_strings.extend(["the", " and"])
    stopped.sampling.seed = 14
    logprobs = generate(text=king, max_tokens=70, logprobs=3)
    logprobs.sampling.temperature = 0
    penalized = generate(text="One day", max_tokens=100)
    penalized.sampling.seed = 15
    penalized.sampling.repetition_penalty = 1.2
    penalized.sampling.presence_penalty = 0.25
    score = generation_pb2.ScoreRequest(text=king + " had a daughter. " * 12)
    return {"greedy": greedy, "seeded": seeded, "several": several, "long-prompt": long_prompt, "stop-strings": stopped,
            "logprobs": logprobs, "penalized": penalized, "score": score}


class Client:
    """A client as docs/clients.md says they should be: it goes on with what it has where the connection is lost."""

    def __init__(self, endpoint, history):
        self.history = history
        self.endpoint = endpoint
        self.channel = grpc.insecure_channel(endpoint, options=[
            ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200),
            ("grpc.dns_min_time_between_resolutions_ms", 100)])

    def stream(self, request, timeout):
        call = self.channel.unary_stream(
            SERVICE + "Generate", request_serializer=generation_pb2.GenerateRequest.SerializeToString,
            response_deserializer=generation_pb2.GenerateResponse.FromString)
        return call(request, timeout=timeout)

    def unary(self, method, request, response_type, timeout):
        call = self.channel.unary_unary(
            SERVICE + method, request_serializer=type(request).SerializeToString,
            response_deserializer=response_type.FromString)
        return call(request, timeout=timeout)

    def call(self, number, name, request):
        """One call to its end, through all losses."""
        self.history.add("begin", call=number, request=name)
        resumed = generation_pb2.GenerateRequest()
        resumed.CopyFrom(request)
        deadline = time.monotonic() + LONGEST_CALL
        while True:
            try:
                for response in self.stream(resumed, deadline - time.monotonic()):
                    self.note(number, resumed, response)
                self.history.add("end", call=number, status="OK")
                return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() >= deadline:
                    self.history.add("end", call=number, status=error.code().name, details=error.details())
                    return
                self.history.add("lost", call=number, details=error.details())
            time.sleep(0.05)

    def note(self, number, request, response):
        if response.HasField("started") and not request.sampling.HasField("seed"):
            request.sampling.seed = response.started.seed
        if response.HasField("finished"):
            reasons = [[s.reason, s.stop_string, s.num_tokens] for s in response.finished.sequences]
            self.history.add("finished", call=number, reasons=reasons)
            return
        while len(request.resume) < max(1, request.n):
            request.resume.add()
        chunk = response.chunk
        request.resume[chunk.sequence].token_ids.extend(chunk.token_ids)
        fields = {"logprobs": [p.logprob.hex() for p in chunk.logprobs]} if chunk.logprobs else {}
        self.history.add("chunk", call=number, sequence=chunk.sequence, tokens=list(chunk.token_ids), text=chunk.text,
                         **fields)

    def score(self, number, name, request):
        self.history.add("begin", call=number, request=name)
        deadline = time.monotonic() + LONGEST_CALL
        while True:
            try:
                response = self.unary("Score", request, generation_pb2.ScoreResponse, deadline - time.monotonic())
                self.history.add("chunk", call=number, sequence=0, tokens=list(response.token_ids), text="",
                                 logprobs=[p.logprob.hex() for p in response.logprobs])
                self.history.add("end", call=number, status="OK")
                return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() >= deadline:
                    self.history.add("end", call=number, status=error.code().name, details=error.details())
                    return
            time.sleep(0.05)

    def status(self):
        return self.unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse, 5)


class Load:
    """Calls in progress until stopped; each ends before the next begins."""

    def __init__(self, endpoint, history, requests):
        self.endpoint, self.history, self.requests = endpoint, history, requests
        self.lock = threading.Lock()
        self.next_call = 0
        self.stopping = threading.Event()
        self.threads = []

    def number(self):
        with self.lock:
            self.next_call += 1
            return self.next_call

    def one(self, client, name):
        request = self.requests[name]
        if isinstance(request, generation_pb2.ScoreRequest):
            client.score(self.number(), name, request)
        else:
            client.call(self.number(), name, request)

    def start(self):
        names = list(self.requests)
        for index in range(OPTIONS.streams):
            # Every kind in turn, each thread from another one on.
            def work(index=index):
                client = Client(self.endpoint, self.history)
                turn = index * 2
                while not self.stopping.is_set():
                    self.one(client, names[turn % len(names)])
                    turn += 1
            self.threads.append(threading.Thread(target=work))
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()


def resumed_from(history_path, requests):
    """A request that goes on from the middle of what the seeded one came to, and begins as if another client had it."""
    tokens = []
    with open(history_path, encoding="utf-8") as file:
        events = [json.loads(line) for line in file]
    call = next(e["call"] for e in events if e["event"] == "begin" and e["request"] == "seeded")
    for event in events:
        if event["event"] == "chunk" and event["call"] == call:
            tokens += event["tokens"]
    request = generation_pb2.GenerateRequest()
    request.CopyFrom(requests["seeded"])
    request.resume.add(token_ids=tokens[:len(tokens) // 2])
    return request


# ---- Faults ----


def cut_a_connection(pid, chance):
    """Shuts down a connected stream socket of a process, as a network would. False where it has none, or we may not."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        pidfd = os.pidfd_open(pid)
        fds = [int(fd) for fd in os.listdir(f"/proc/{pid}/fd")
               if os.readlink(f"/proc/{pid}/fd/{fd}").startswith("socket:")]
    except OSError:
        return False
    chance.shuffle(fds)
    try:
        for fd in fds:
            copy = libc.syscall(PIDFD_GETFD, pidfd, fd, 0)
            if copy < 0:
                continue
            with socket.socket(fileno=copy) as connection:
                try:
                    connection.getpeername()
                    connection.shutdown(socket.SHUT_RDWR)
                    return True
                except OSError:  # it listens, or is over
                    continue
    finally:
        os.close(pidfd)
    return False


def slow_down(pid, seconds):
    """A process that gets a third of the time it wants."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until:
            os.kill(pid, signal.SIGSTOP)
            time.sleep(0.04)
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
    except ProcessLookupError:
        pass


def break_something(up, history, chance):
    processes = listeners_of(up.process.pid)
    if not processes:
        return
    name = chance.choice(sorted(processes))
    pid = processes[name]
    kind = chance.choice(["SIGKILL", "SIGKILL", "SIGSTOP", "cut", "slow", "SIGTERM"])
    history.add("fault", kind=kind, process=name, pid=pid)
    try:
        if kind == "cut":
            if not cut_a_connection(pid, chance):
                history.add("no-fault", kind=kind, process=name)
        elif kind == "slow":
            slow_down(pid, 1)
        else:
            os.kill(pid, getattr(signal, kind))
    except ProcessLookupError:
        history.add("no-fault", kind=kind, process=name)


# ---- A run ----


def run(history_path, log):
    seed = OPTIONS.seed or random.randrange(1, 1 << 31)
    chance = random.Random(seed)
    history = History(history_path)
    history.add("run", seed=seed, tp=OPTIONS.tp, pp=OPTIONS.pp, minutes=OPTIONS.minutes,
                hang_timeout=OPTIONS.hang_timeout)
    up = start(log)
    try:
        requests = requests_of_every_kind()
        load = Load(up.endpoint, history, requests)
        client = Client(up.endpoint, history)
        history.add("undisturbed")
        for name in list(requests):
            load.one(client, name)
        requests["resumed"] = resumed_from(history_path, requests)
        load.one(client, "resumed")
        history.add("disturbed")
        load.start()
        until = time.monotonic() + 60 * OPTIONS.minutes
        while time.monotonic() < until:
            time.sleep(chance.uniform(1, 2))
            break_something(up, history, chance)
        load.stop()
        history.add("quiet")
        settle(client, history)
    finally:
        stop(up)
    return seed


def settle(client, history):
    """What the pipeline says of itself once nothing is asked any more, as soon as it serves."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            status = client.status()
            if status.serving and not status.num_running_sequences:
                break
        except grpc.RpcError:
            pass
        time.sleep(0.1)
    history.add("status", serving=status.serving, used_blocks=status.kv_cache.num_used_blocks,
                running=status.num_running_sequences, waiting=status.num_waiting_sequences)


def main():
    folder = tempfile.mkdtemp(prefix="sluice-chaos-")
    history_path = OPTIONS.history or os.path.join(folder, "history.jsonl")
    log_path = os.path.join(folder, "up.log")
    with open(log_path, "w", encoding="utf-8") as log:
        seed = run(history_path, log)
    print(f"seed {seed}, history {history_path}, log {log_path}", flush=True)
    checker = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")
    return subprocess.run([sys.executable, "-B", checker, history_path], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
