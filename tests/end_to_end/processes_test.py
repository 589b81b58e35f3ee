"""Real processes that nothing befalls: how they start, what they serve and how they end."""

import json
import os
import re
import socket
import tempfile
import unittest

from processes import (
    PROMPT, SERVICE, SLUICE, STORYTELLER, Client, Orchestrator, Pipeline, Up, children_of, generation_pb2, grpc, main,
    request, sluice, status_pb2, tokenizer_pb2)


class ProcessesTest(unittest.TestCase):
    def test_a_call_says_what_it_waits_for(self):
        with tempfile.TemporaryDirectory() as folder, Orchestrator(folder) as orchestrator:
            waiting = sluice("generate", "--endpoint", orchestrator.socket, "--token_ids", "1,2", "--timeout", "4",
                             code=1).stderr
            self.assertIn(f"the pipeline is not ready: tokenizer at unix:{folder}/tokenizer: No such file", waiting)
            # Any client's status names the cause, in place of its own "Deadline Exceeded".
            for message in (request(1), generation_pb2.GenerateRequest(token_ids={"token_ids": [1]})):
                with self.assertRaises(grpc.RpcError) as refused:
                    list(Client(orchestrator.socket).generate(message, timeout=2))
                self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
                self.assertIn("No such file or directory", refused.exception.details())
            status = sluice("status", "--endpoint", orchestrator.socket, code=1).stdout
            self.assertIn("is not serving", status)
            self.assertEqual(status.count("No such file or directory"), 4)

    def test_up_gives_up_at_once_where_the_tokenizer_cannot_be_read(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(STORYTELLER):
                os.symlink(os.path.abspath(os.path.join(STORYTELLER, name)), os.path.join(folder, name))
            for text in ("{}", '{"model": {"type": "BPE"'):
                with self.subTest(text=text):
                    path = os.path.join(folder, "tokenizer.json")
                    os.unlink(path)
                    with open(path, "w") as file:
                        file.write(text)
                    refused = sluice("up", "--port", "0", "--model", folder, code=1)
                    self.assertEqual(refused.stdout, "")
                    self.assertIn("tokenizer.json", refused.stderr)

    def test_a_normal_start_warns_of_nothing(self):
        with Pipeline(SLUICE, "--tp", "2", "--pp", "2", keep_log=True) as up:
            said = sluice("generate", "--endpoint", up.endpoint, "--max_tokens", "4", PROMPT).stderr
            self.assertRegex(said, r"^4 tokens in [^\n]*\n$")
            self.assertEqual(up.stop(), 0)
            log = up.log_text()
        self.assertIn(" up pipeline-ready ", log)
        # Every line is one of ours, whoever spoke, and none is a warning.
        for line in log.splitlines():
            if re.match(r"loading .*: \d+% of ", line):  # where a machine takes long to load
                continue
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z I [a-z-]+ [a-z-]+( [a-z0-9_]+=|$)")
            self.assertNotIn(" grpc message ", line)
        quiet = re.sub(r"(?m)^loading .*\n", "", sluice("run", "--max_tokens", "4", PROMPT).stderr)
        self.assertRegex(quiet, r"^sluice: the KV pool holds [^\n]*\n4 tokens in [^\n]*\n$")

    def test_conversations_are_rendered_for_clients(self):
        with Up() as up:
            client = Client(up.endpoint)
            chat = tokenizer_pb2.ApplyChatTemplateRequest(messages=[{"role": "user", "content": "Once there was a king."},
                                                                    {"role": "assistant", "content": "His daughter"}])
            rendered = client.unary("ApplyChatTemplate", chat, tokenizer_pb2.ApplyChatTemplateResponse)
            self.assertTrue(rendered.text.endswith("Once there was a king.\nHis daughter"), rendered.text)
            # The refusal is the tokenizer's.
            wrong = tokenizer_pb2.ApplyChatTemplateRequest(template_name="nobody", messages=chat.messages)
            with self.assertRaises(grpc.RpcError) as refused:
                client.unary("ApplyChatTemplate", wrong, tokenizer_pb2.ApplyChatTemplateResponse)
            self.assertIn("nobody", refused.exception.details())

    def test_every_shape_writes_the_same_text_as_one_process(self):
        greedy = ["--prompt", PROMPT, "--max_tokens", "40", "--temperature", "0", "--ignore_eos"]
        sampled = ["--prompt", PROMPT, "--max_tokens", "40", "--seed", "7", "--ignore_eos"]
        expected = [sluice("run", *flags).stdout for flags in (greedy, sampled)]
        self.assertGreater(len(expected[0]), 80)
        self.assertNotEqual(*expected)
        for shape in ([], ["--tp", "2"], ["--tp", "4"], ["--tp", "2", "--pp", "2"]):
            with self.subTest(shape=shape), Up(*shape) as up:
                self.assertEqual(up.ready, f"ready {up.endpoint}")
                for flags, text in zip((greedy, sampled), expected):
                    self.assertEqual(sluice("generate", "--endpoint", up.endpoint, *flags).stdout, text)

    def test_a_client_from_the_protos_alone(self):
        with Up() as up:
            client = Client(up.endpoint)
            responses = list(client.generate(request(12)))
            self.assertEqual([r.WhichOneof("event") for r in responses].count("finished"), 1)
            finished = responses[-1].finished
            self.assertEqual(finished.sequences[0].reason, generation_pb2.FINISH_REASON_LENGTH)
            self.assertEqual(finished.usage.num_generated_tokens, 12)

            score = client.unary("Score", generation_pb2.ScoreRequest(text=PROMPT), generation_pb2.ScoreResponse)
            self.assertEqual(len(score.logprobs), len(score.token_ids) - 1)
            mean = -sum(p.logprob for p in score.logprobs) / len(score.logprobs)
            self.assertAlmostEqual(score.mean_nll, mean, places=5)

            # grpc.health.v1: an empty request asks for the whole process; the answer's field 1 is SERVING, 1.
            self.assertEqual(client.raw("/grpc.health.v1.Health/Check", b""), b"\x08\x01")
            name = b"sluice.v1.GenerationService"
            self.assertEqual(client.raw("/grpc.health.v1.Health/Check", b"\x0a" + bytes([len(name)]) + name),
                             b"\x08\x01")
            status = client.unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse)
            self.assertTrue(status.serving)
            self.assertEqual(sorted(p.service for p in status.processes),
                             ["embedding", "sampler", "shard", "tokenizer"])

            # Reflection: list_services is field 7 of the request, a string.
            reflect = client.channel.stream_stream(
                "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                request_serializer=None, response_deserializer=None)
            listed = next(reflect(iter([b"\x3a\x01*"]), timeout=10))
            for name in (b"sluice.v1.GenerationService", b"grpc.health.v1.Health"):
                self.assertIn(name, listed)

            # A text that is not UTF-8, as no Python message can hold it: field 2, three bytes.
            call = client.channel.unary_stream(SERVICE + "Generate", request_serializer=None,
                                               response_deserializer=None)
            with self.assertRaises(grpc.RpcError) as refused:
                list(call(b"\x12\x03ab\xff", timeout=10))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("UTF-8", refused.exception.details())
            with self.assertRaises(grpc.RpcError) as refused:
                client.raw(SERVICE + "Score", b"\x0a\x03ab\xff")
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

            with self.assertRaises(grpc.RpcError) as refused:
                list(client.generate(request(0)))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("max_tokens is 0", refused.exception.details())

    def test_sigterm_ends_every_process(self):
        up = Up("--tp", "2")
        processes = children_of(up.process.pid)
        self.assertEqual(len(processes), 6)
        self.assertEqual(up.stop(), 0)
        for pid in processes:
            self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_status_shows_processes_and_blocks(self):
        with Up("--tp", "2") as up:
            status = json.loads(sluice("status", "--endpoint", up.endpoint, "--json").stdout)
            self.assertTrue(status["serving"])
            self.assertIn("shard", sluice("status", "--endpoint", up.endpoint).stdout)

    def test_a_port_in_use_is_an_error(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            self.assertIn(port, sluice("up", "--port", port, code=1).stderr)


if __name__ == "__main__":
    main()
