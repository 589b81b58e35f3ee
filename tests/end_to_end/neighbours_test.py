"""Pipelines beside each other on one host: neither another pipeline nor any process of the host changes a text."""

import concurrent.futures
import os
import signal
import struct
import tempfile
import threading
import time
import unittest

from processes import (
    STORYTELLER, Client, Up, children_of, grpc, listeners_of, main, request, status_pb2, text_of)

import random_model
from sluice.v1 import chosen_tokens_pb2, stage_pb2

TOKENS = 24
ROUNDS = 8
PUSH = "/sluice.v1.StageService/Push"
FOLLOW = "/sluice.v1.ChosenTokensService/Follow"


def generate(endpoint, tokens=TOKENS):
    """The text; again where the orchestrator itself is replaced meanwhile, as on a host with too little time for all."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return text_of(Client(endpoint).generate(request(tokens)))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def status_of(client):
    return client.unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse)


def sockets_of(pid):
    """{name: address} of the services that `pid` started."""
    found = {}
    for child in children_of(pid):
        with open(f"/proc/{child}/cmdline", "rb") as file:
            arguments = file.read().decode().split("\0")
        if "--listen" in arguments:
            address = arguments[arguments.index("--listen") + 1]
            if address.startswith("unix:"):
                found[os.path.basename(address)] = address
    return found


def row_of_zeros(epoch, step):
    message = stage_pb2.PushRequest()
    message.step.epoch = epoch
    message.step.step_id = step
    message.step.hidden.dtype = 1  # F32
    message.step.hidden.shape.extend([1, random_model.HIDDEN])
    message.step.hidden.data = struct.pack(f"<{random_model.HIDDEN}f", *[0.0] * random_model.HIDDEN)
    return message


def opening(epoch):
    message = stage_pb2.PushRequest()
    message.open.epoch = epoch
    message.open.wiring_nonce = os.urandom(16)
    return message


class NeighboursTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.models, cls.texts = [], []
        for seed in (1, 2):
            folder = random_model.make(os.path.join(cls.folder.name, f"model-{seed}"), STORYTELLER, seed)
            cls.models.append(folder)
            with Up("--model", folder) as up:
                cls.texts.append(generate(up.endpoint))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_pipelines_that_start_at_once_write_their_own_texts(self):
        """Equal shapes, epochs and stages: what tells them apart is what each wiring draws for itself."""
        self.assertNotEqual(*self.texts)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            ups = list(pool.map(lambda i: Up("--model", self.models[i % 2], "--tp", "2"), range(4)))
            try:
                for turn in range(ROUNDS):
                    texts = list(pool.map(lambda up: generate(up.endpoint), ups))
                    self.assertEqual(texts, self.texts + self.texts, f"in round {turn}")
                    # All are wired again at the same moment.
                    for victims in [listeners_of(up.process.pid) for up in ups]:
                        if "shard-0-1" in victims:
                            os.kill(victims["shard-0-1"], signal.SIGKILL)
                self.assertFalse([name for name in os.listdir("/dev/shm") if "sluice" in name], "ranks' memory has no name")
            finally:
                for up in ups:
                    up.stop()

    def test_files_of_others_in_shared_memory_do_no_harm(self):
        """Another user makes files of the names that a pipeline might use; that of ranks has none."""
        names = [f"/dev/shm/sluice-{epoch}-{stage}" for epoch in (1, 2) for stage in (0, 1)]
        try:
            for name in names:
                with open(name, "wb") as file:
                    file.write(b"\xff" * (1 << 20))
                os.chmod(name, 0)
            with Up("--model", self.models[0], "--tp", "2", "--pp", "2") as up:
                self.assertEqual(generate(up.endpoint), self.texts[0])
                self.assertEqual(status_of(Client(up.endpoint)).epoch, 1, "no wiring failed")
            for name in names:
                self.assertEqual(os.stat(name).st_size, 1 << 20)
        finally:
            for name in names:
                os.unlink(name)

    def test_foreign_rows_are_refused_and_change_no_text(self):
        """Every stage is sent rows for every step that may be under way, with and without an Open, while a client reads."""
        with Up("--model", self.models[0], "--pp", "2") as up:
            client = Client(up.endpoint)
            expected = text_of(client.generate(request(200)))
            epoch = status_of(client).epoch
            addresses = sockets_of(up.process.pid)
            over, codes = threading.Event(), []

            def attack(name):
                channel = grpc.insecure_channel(addresses[name])
                push = channel.stream_stream(PUSH, stage_pb2.PushRequest.SerializeToString,
                                             stage_pb2.PushResponse.FromString)
                step = 200
                while not over.is_set():
                    for begin in ([], [opening(epoch)]):
                        try:
                            list(push(iter(begin + [row_of_zeros(epoch, step + i) for i in range(100)]), timeout=20))
                            codes.append(None)
                        except grpc.RpcError as error:
                            codes.append(error.code())
                    step += 20
                channel.close()

            threads = [threading.Thread(target=attack, args=(name,)) for name in ("shard-0-0", "shard-1-0", "sampler")]
            for thread in threads:
                thread.start()
            try:
                texts = [text_of(client.generate(request(200))) for _ in range(2)]
            finally:
                over.set()
                for thread in threads:
                    thread.join()
            self.assertEqual(texts, [expected] * 2)
            refusals = {grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.ABORTED}
            self.assertGreater(len(codes), 10)
            self.assertLessEqual(set(codes), refusals)
            after = status_of(client)
            self.assertEqual((after.epoch, after.num_recoveries), (epoch, 0))

    def test_a_foreign_follower_learns_nothing_and_takes_nothing(self):
        with Up("--model", self.models[0]) as up:
            client = Client(up.endpoint)
            expected = text_of(client.generate(request(60)))
            epoch = status_of(client).epoch
            channel = grpc.insecure_channel(sockets_of(up.process.pid)["sampler"])
            follow = channel.stream_stream(FOLLOW, chosen_tokens_pb2.FollowRequest.SerializeToString,
                                           chosen_tokens_pb2.FollowResponse.FromString)
            for nonce, code in ((b"", grpc.StatusCode.INVALID_ARGUMENT), (os.urandom(16), grpc.StatusCode.ABORTED)):
                with self.assertRaises(grpc.RpcError) as refused:
                    list(follow(iter([chosen_tokens_pb2.FollowRequest(epoch=epoch, wiring_nonce=nonce)]), timeout=20))
                self.assertEqual(refused.exception.code(), code)
            channel.close()
            self.assertEqual(text_of(client.generate(request(60))), expected)


if __name__ == "__main__":
    main()
