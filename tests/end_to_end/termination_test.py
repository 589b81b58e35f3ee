"""What a process that can't do its work tells its supervisor, in the file that --termination_log names.

Usage: termination_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import uuid

from processes import BIN, SLUICE, STORYTELLER, Orchestrator, grpc, main
from sluice.v1 import shard_pb2, stage_pb2


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def authority(folder, name):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1", "-subj", f"/CN={name}",
            "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.crt")


def issue(folder, name, by):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.csr")
    openssl("x509", "-req", "-in", f"{folder}/{name}.csr", "-CA", f"{folder}/{by}.crt", "-CAkey", f"{folder}/{by}.key",
            "-CAcreateserial", "-days", "1", "-out", f"{folder}/{name}.crt")


def requests(first, over):
    """Of a stream that stays open until `over`."""
    yield first
    over.wait()


class TerminationTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = os.path.join(self.folder, "termination-log")

    def start(self, program, *flags):
        return subprocess.Popen([os.path.join(BIN, program), "--termination_log", self.log, *flags], stderr=subprocess.DEVNULL)

    def told(self, process, status=1):
        self.assertEqual(process.wait(60), status)
        with open(self.log) as file:
            return file.read()

    def test_a_stage_of_another_model_says_so_and_ends(self):
        other = os.path.join(self.folder, "other")
        shutil.copytree(STORYTELLER, other)
        path = os.path.join(other, "config.json")
        with open(path) as file:
            config = json.load(file)
        config["rms_norm_eps"] = 0.125
        with open(path, "w") as file:
            json.dump(config, file)
        stage = self.start("sluice-embedding", "--model", other, "--listen", f"unix:{self.folder}/embedding",
                           "--refusal_timeout", "1s")
        with Orchestrator(self.folder):
            told = self.told(stage)
        self.assertRegex(told, "^the orchestrator can't use this process: it serves another model: fingerprint .*, expected .*\n$")

    def test_a_stage_that_fits_stays_though_others_are_missing(self):
        stage = self.start("sluice-embedding", "--model", STORYTELLER, "--listen", f"unix:{self.folder}/embedding",
                           "--refusal_timeout", "500ms")
        with Orchestrator(self.folder), self.assertRaises(subprocess.TimeoutExpired):
            stage.wait(3)
        stage.terminate()
        self.assertEqual(stage.wait(30), 0)
        self.assertFalse(os.path.exists(self.log))

    def test_a_rank_that_waits_for_its_peers_ends_when_told_to(self):
        """It would give up by itself 5 s after it has begun to wait, which is not before the stream is opened."""
        for kind in ("SHM", "TCP"):
            with self.subTest(kind=kind):
                over = threading.Event()
                self.addCleanup(over.set)
                address, group = f"unix:{self.folder}/{kind}", f"sluice-test-{uuid.uuid4()}"
                rank = self.start("sluice-shard", "--model", STORYTELLER, "--listen", address, "--num_ranks", "2", "--rank", "1")
                self.addCleanup(rank.kill)
                channel = grpc.insecure_channel(address)

                def call(method, request, response):
                    return channel.unary_unary(f"/sluice.v1.{method}", request_serializer=type(request).SerializeToString,
                                               response_deserializer=response.FromString)(request, timeout=60, wait_for_ready=True)

                info = call("StageService/GetStageInfo", stage_pb2.GetStageInfoRequest(), stage_pb2.GetStageInfoResponse)
                run = channel.stream_stream("/sluice.v1.StageService/Run", stage_pb2.StageRunRequest.SerializeToString,
                                            stage_pb2.StageRunResponse.FromString)
                wired = stage_pb2.StageOpen(
                    epoch=1, model_fingerprint=info.model_fingerprint, wiring_nonce=os.urandom(16),
                    shard=shard_pb2.ShardOpen(
                        num_kv_blocks=info.shard.num_kv_blocks, communicator=f"COMMUNICATOR_KIND_{kind}",
                        communicator_name=group, rendezvous_address=address))
                opened = time.monotonic()
                stream = run(requests(stage_pb2.StageRunRequest(open=wired), over))
                if kind == "TCP":
                    call("RendezvousService/GetRendezvous", shard_pb2.GetRendezvousRequest(
                        key=f"{group}/1", epoch=wired.epoch, wiring_nonce=wired.wiring_nonce,
                        model_fingerprint=wired.model_fingerprint), shard_pb2.GetRendezvousResponse)
                deadline = time.monotonic() + 60
                while call("StageService/GetStageInfo", stage_pb2.GetStageInfoRequest(), stage_pb2.GetStageInfoResponse).epoch != wired.epoch:
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                rank.terminate()
                self.assertEqual(rank.wait(60), 0)
                self.assertLess(time.monotonic() - opened, 5)
                with self.assertRaises(grpc.RpcError):
                    list(stream)
                over.set()
                channel.close()

    def test_a_tokenizer_of_another_model_says_so_and_ends(self):
        other = os.path.join(self.folder, "other")
        shutil.copytree(STORYTELLER, other)
        with open(os.path.join(other, "tokenizer.json"), "a") as file:
            file.write("\n")
        tokenizer = self.start("sluice-tokenizer", "--model", other, "--listen", f"unix:{self.folder}/tokenizer",
                               "--refusal_timeout", "1s")
        with Orchestrator(self.folder):
            self.assertIn("it serves the tokenizer of another model", self.told(tokenizer))

    def test_a_wrong_authority(self):
        authority(self.folder, "right")
        authority(self.folder, "wrong")
        issue(self.folder, "stage", "right")
        stage = self.start("sluice-tokenizer", "--model", STORYTELLER, "--listen", "127.0.0.1:0", "--tls_cert",
                           f"{self.folder}/stage.crt", "--tls_key", f"{self.folder}/stage.key", "--tls_ca", f"{self.folder}/wrong.crt")
        self.assertIn(f"stage.crt was issued by /CN=right, which is no authority in {self.folder}/wrong.crt", self.told(stage))

    def test_a_missing_volume(self):
        stage = self.start("sluice-shard", "--model", "/models/gone", "--listen", f"unix:{self.folder}/shard")
        self.assertIn("/models/gone", self.told(stage))

    def test_a_wrong_flag(self):
        stage = self.start("sluice-sampler", "--model", STORYTELLER, "--hang_timeout", "0s")
        self.assertIn("--hang_timeout is 0", self.told(stage, status=2))

    def test_a_flag_whose_value_is_not_accepted_is_named(self):
        # 2: by the table of options; 1: by what the machine has.
        for program, flag, value, status in (
                ("sluice-sampler", "--weights", "f16", 2), ("sluice-sampler", "--device", "tpu", 1),
                ("sluice-sampler", "--instructions", "mmx", 1), ("sluice-sampler", "--gpu_instructions", "mmx", 1),
                ("sluice-sampler", "--threads", "-1", 2), ("sluice-shard", "--kv_dtype", "f16", 2)):
            with self.subTest(flag=flag):
                stage = self.start(program, "--model", STORYTELLER, "--listen", f"unix:{self.folder}/stage", f"{flag}={value}")
                self.assertRegex(self.told(stage, status), f"{flag}( is|:) .*{value}.*; accepted: ")

    def test_a_process_that_loads_is_alive_and_one_that_loads_for_too_long_ends(self):
        """As one whose volume is too slow: it reads a tokenizer's file of 256 GiB, all holes."""
        model = os.path.join(self.folder, "model")
        shutil.copytree(STORYTELLER, model)
        with open(os.path.join(model, "x.tiktoken"), "w") as file:
            file.truncate(1 << 38)
        health = f"unix:{self.folder}/health"
        process = self.start("sluice-orchestrator", "--model", model, "--listen", f"unix:{self.folder}/orchestrator",
                             *(part for name in ("tokenizer", "embedding", "shards", "sampler") for part in (f"--{name}", f"unix:{self.folder}/{name}")),
                             "--health_listen", health, "--startup_timeout", "3s")
        self.addCleanup(process.kill)

        def answer(service):
            done = subprocess.run([SLUICE, "health", "--endpoint", health, "--service", service], capture_output=True, text=True, timeout=60)
            return done.stdout.strip()
        while answer("live") != "SERVING" and process.poll() is None:
            time.sleep(0.05)
        self.assertEqual((answer("live"), answer("")), ("SERVING", "NOT_SERVING"))
        self.assertIn("--startup_timeout, 3s", self.told(process, status=70))

    @unittest.skipIf(os.geteuid() != 0, "only root can make a disk that is full")
    def test_a_full_disk(self):
        """`up` has no such flag: Kubernetes shows the end of its log, which is this sentence."""
        full = os.path.join(self.folder, "full")
        os.mkdir(full)
        done = subprocess.run(["unshare", "-m", "sh", "-c",
                               f"mount -t tmpfs -o nr_inodes=1 none {full} && TMPDIR={full} exec {SLUICE} up --port 0"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(full, done.stderr.strip().splitlines()[-1])
        self.assertIn("No space left", done.stderr.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
