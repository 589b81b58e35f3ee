"""What processes of a pipeline believe of each other, and what clients are told of them.

Usage: trust_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

from processes import BIN, PROMPT, SLUICE, STORYTELLER, Client, Orchestrator, Up, grpc, main, request, sluice, text_of, tokenizer_pb2
from sluice.v1 import shard_pb2, stage_pb2

ROLES = ("tokenizer", "embedding", "shard", "sampler")


class Certificates:
    """An authority in a folder, and a certificate for each role."""

    def __init__(self, folder):
        self.folder = folder
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        self.openssl("req", "-x509", *key, "-days", "1", "-subj", "/CN=ca", "-keyout", "ca.key", "-out", "ca.crt")
        for role in (*ROLES, "orchestrator"):
            self.openssl("req", *key, "-subj", f"/CN={role}", "-addext", f"subjectAltName=DNS:{role}.sluice.internal,DNS:localhost",
                         "-keyout", f"{role}.key", "-out", f"{role}.csr")
            self.openssl("x509", "-req", "-in", f"{role}.csr", "-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "1",
                         "-copy_extensions", "copy", "-out", f"{role}.crt")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=self.folder)

    def flags(self, role):
        return ("--tls_cert", f"{self.folder}/{role}.crt", "--tls_key", f"{self.folder}/{role}.key", "--tls_ca", f"{self.folder}/ca.crt")


class TrustTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.log = os.path.join(self.folder, "log")

    def start(self, program, *flags, model=STORYTELLER):
        with open(self.log, "ab") as log:
            process = subprocess.Popen([os.path.join(BIN, f"sluice-{program}"), "--model", model, *flags], stderr=log)
        self.addCleanup(process.wait, 30)
        self.addCleanup(process.kill)
        return process

    def start_at_socket(self, program, *flags, **model):
        return self.start(program, "--listen", f"unix:{self.folder}/{program}", *flags, **model)

    def wait_until(self, done, seconds=60):
        deadline = time.monotonic() + seconds
        while not done():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def status(self, endpoint, *flags):
        done = subprocess.run([SLUICE, "status", "--json", "--endpoint", endpoint, *flags], capture_output=True, text=True, timeout=60)
        return json.loads(done.stdout) if done.stdout else {}

    def copy_model(self, name):
        folder = os.path.join(self.folder, name)
        shutil.copytree(STORYTELLER, folder)
        return folder

    def test_a_tokenizer_of_another_model_is_not_used(self):
        """It takes the place of the right one, which had answered, and says that it is none."""
        other = self.copy_model("other")
        path = os.path.join(other, "tokenizer.json")
        with open(path) as file:
            contents = json.load(file)
        vocab = contents["model"]["vocab"]
        another = next(token for token in vocab if len(token) > 3 and token.isalpha() and token != "king")
        vocab["king"], vocab[another] = vocab[another], vocab["king"]
        with open(path, "w") as file:
            json.dump(contents, file)
        tokenizer = self.start_at_socket("tokenizer")
        for program in ("embedding", "shard", "sampler"):
            self.start_at_socket(program)
        with Orchestrator(self.folder) as orchestrator:
            self.wait_until(lambda: self.status(orchestrator.socket).get("serving"))
            client = Client(orchestrator.socket)
            expected = text_of(client.generate(request(8)))
            ids = client.unary("Tokenize", tokenizer_pb2.TokenizeRequest(text=PROMPT.encode()), tokenizer_pb2.TokenizeResponse).token_ids
            under_way = client.generate(request(200))
            next(under_way)
            tokenizer.kill()
            tokenizer.wait()
            wrong = self.start_at_socket("tokenizer", "--refusal_timeout", "0", model=other)
            # Whatever is asked while it is there: an error that names it, never an answer.
            refusals = 0
            while refusals < 1:
                try:
                    got = client.unary("Tokenize", tokenizer_pb2.TokenizeRequest(text=PROMPT.encode()), tokenizer_pb2.TokenizeResponse,
                                       timeout=10)
                    self.assertEqual(got.token_ids, ids)
                except grpc.RpcError as refused:
                    self.assertEqual(refused.code(), grpc.StatusCode.UNAVAILABLE, refused.details())
                    refusals += "SHA-256" in refused.details()
            with self.assertRaises(grpc.RpcError) as refused:
                list(client.generate(request(8), timeout=10))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("SHA-256", refused.exception.details())
            wrong.kill()
            wrong.wait()
            self.start_at_socket("tokenizer")
            self.assertEqual(text_of(client.generate(request(8))), expected)
            # A stream that was under way has waited, and has the text that it would have had.
            whole = text_of(client.generate(request(200)))
            self.assertTrue(whole.endswith(text_of(under_way)))

    def test_a_shard_can_be_opened_after_any_epoch_that_was_sent(self):
        self.start_at_socket("shard")
        channel = grpc.insecure_channel(f"unix:{self.folder}/shard")
        self.addCleanup(channel.close)
        info = channel.unary_unary(
            "/sluice.v1.StageService/GetStageInfo", request_serializer=stage_pb2.GetStageInfoRequest.SerializeToString,
            response_deserializer=stage_pb2.GetStageInfoResponse.FromString)(
                stage_pb2.GetStageInfoRequest(), timeout=60, wait_for_ready=True)
        run = channel.stream_stream("/sluice.v1.StageService/Run", stage_pb2.StageRunRequest.SerializeToString,
                                    stage_pb2.StageRunResponse.FromString)

        def open_under(epoch):
            """How the stream ends: nothing is at the address of the next stage."""
            opened = stage_pb2.StageOpen(
                epoch=epoch, model_fingerprint=info.model_fingerprint, next_stage=f"unix:{self.folder}/none",
                wiring_nonce=bytes(16), shard=shard_pb2.ShardOpen(
                    num_kv_blocks=info.shard.num_kv_blocks, communicator="COMMUNICATOR_KIND_SHM"))
            with self.assertRaises(grpc.RpcError) as ended:
                list(run(iter([stage_pb2.StageRunRequest(open=opened)]), timeout=60))
            return ended.exception.code(), ended.exception.details()

        for epoch in (2**64 - 1, 2**62 + 1, 0):
            code, details = open_under(epoch)
            self.assertEqual((code, details), (grpc.StatusCode.INVALID_ARGUMENT, f"epoch is {epoch}; accepted: 1 to {2**62}"))
        for epoch in (2**62, 1, 2):
            self.assertNotIn(open_under(epoch)[0], (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.ABORTED), epoch)
        self.assertEqual(open_under(2)[0], grpc.StatusCode.ABORTED)

    def test_a_tokenizers_certificate_is_refused_at_the_samplers_address(self):
        certificates = Certificates(self.folder)
        addresses = {}

        def listen(program, role, address="localhost:0"):
            path = os.path.join(self.folder, f"{program}.log")
            with open(path, "wb") as log:
                process = subprocess.Popen([os.path.join(BIN, f"sluice-{program}"), "--model", STORYTELLER, "--listen", address,
                                            *certificates.flags(role)], stderr=log)
            self.addCleanup(process.wait, 30)
            self.addCleanup(process.kill)

            def found():
                with open(path) as log:
                    lines = [line for line in log if " listening " in line]
                if lines:
                    addresses[program] = lines[0].split("address=")[1].split()[0]
                return bool(lines)
            self.wait_until(found)
            return process

        for role in ROLES:
            sampler = listen(role, role)
        sampler.kill()
        sampler.wait()
        impostor = listen("sampler", "tokenizer", addresses["sampler"])
        socket = f"unix:{self.folder}/orchestrator"
        self.start("orchestrator", "--listen", socket, "--tokenizer", addresses["tokenizer"], "--embedding", addresses["embedding"],
                   "--shards", addresses["shard"], "--sampler", addresses["sampler"], *certificates.flags("orchestrator"))

        def details():
            return {process["service"]: process.get("detail", "") for process in self.status(socket).get("processes", [])}
        self.wait_until(lambda: "verif" in details().get("sampler", "") or "certificate" in details().get("sampler", ""))
        self.assertFalse(self.status(socket)["serving"])
        for role in ("tokenizer", "embedding", "shard"):
            self.assertEqual(details()[role], "", role)
        impostor.kill()
        impostor.wait()
        listen("sampler", "sampler", addresses["sampler"])
        self.wait_until(lambda: self.status(socket).get("serving"))
        self.assertTrue(text_of(Client(socket).generate(request(4))))

    def test_errors_name_no_paths_and_addresses(self):
        with open(self.log, "wb") as log:
            orchestrator = subprocess.Popen(
                [os.path.join(BIN, "sluice-orchestrator"), "--model", STORYTELLER, "--listen", f"unix:{self.folder}/orchestrator",
                 *(part for role in ("tokenizer", "embedding", "sampler") for part in (f"--{role}", f"unix:{self.folder}/{role}")),
                 "--shards", f"unix:{self.folder}/shard"], stderr=log)
        self.addCleanup(orchestrator.wait, 30)
        self.addCleanup(orchestrator.terminate)
        socket = f"unix:{self.folder}/orchestrator"
        self.wait_until(lambda: self.status(socket))
        client = Client(socket)
        asked = request(1)
        asked.request_id = "one-of-mine"
        calls = (lambda: list(client.generate(asked, timeout=2)),
                 lambda: client.unary("Tokenize", tokenizer_pb2.TokenizeRequest(text=b"x"), tokenizer_pb2.TokenizeResponse, timeout=2))
        for call in calls:
            with self.assertRaises(grpc.RpcError) as failed:
                call()
            self.assertNotIn(self.folder, failed.exception.details())
            self.assertNotIn("unix:", failed.exception.details())
        with open(self.log) as log:
            told = [line for line in log if " call-failed " in line and "request=one-of-mine" in line]
        self.assertEqual(len(told), 1)
        self.assertIn(f"unix:{self.folder}/tokenizer", told[0])

    def test_a_template_is_named_by_its_file_alone(self):
        model = self.copy_model("chatting")
        with open(os.path.join(model, "chat_template.jinja"), "w") as file:
            file.write("{{ raise_exception('no') }}")
        with open(os.path.join(self.folder, "up.log"), "wb") as log:
            up = Up("--model", model, stderr=log)
        self.addCleanup(up.stop)
        refused = sluice("chat", "--endpoint", up.endpoint, code=1, stdin="hello\n").stderr
        self.assertIn("chat_template.jinja", refused)
        self.assertNotIn(model, refused)

    def test_a_fifo_does_not_hold_up_a_start(self):
        tokenizer = [os.path.join(BIN, "sluice-tokenizer"), "--listen", f"unix:{self.folder}/it", "--model"]
        for name in ("x.tiktoken", "added_tokens.json", "tokenizer.json", "generation_config.json"):
            with self.subTest(name=name):
                model = self.copy_model(f"with-{name}")
                path = os.path.join(model, name)
                if os.path.exists(path):
                    os.unlink(path)
                os.mkfifo(path)
                # `up` reads no file that only says which tokenizer it is.
                command = tokenizer if name in ("x.tiktoken", "added_tokens.json") else [SLUICE, "up", "--port", "0", "--model"]
                refused = subprocess.run([*command, model], capture_output=True, text=True, timeout=30)
                self.assertEqual(refused.returncode, 1, refused.stderr)
                self.assertIn("not a regular file", refused.stderr)


if __name__ == "__main__":
    main()
