"""Real processes that nothing befalls: how they start, what they serve and how they end."""

import json
import os
import socket
import subprocess
import tempfile
import unittest

from processes import (
    PROMPT, SERVICE, SLUICE, STORYTELLER, Client, Orchestrator, Up, children_of, generation_pb2, grpc, main, request,
    sluice, status_pb2, tokenizer_pb2)


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
        up = subprocess.Popen([SLUICE, "up", "--port", "0", "--tp", "2", "--pp", "2"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        endpoint = up.stdout.readline().split()[1]
        said = sluice("generate", "--endpoint", endpoint, "--max_tokens", "4", PROMPT).stderr
        self.assertRegex(said, r"^4 tokens in [^\n]*\n$")
        up.terminate()
        _, log = up.communicate(timeout=30)
        self.assertEqual(up.returncode, 0)
        self.assertIn(" up pipeline-ready ", log)
        # Every line is one of ours, whoever spoke, and none is a warning.
        for line in log.splitlines():
            self.assertRegex(line, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z I [a-z-]+ [a-z-]+( [a-z0-9_]+=|$)")
            self.assertNotIn(" grpc message ", line)
        quiet = sluice("run", "--max_tokens", "4", PROMPT).stderr
        self.assertRegex(quiet, r"^sluice: the KV pool holds [^\n]*\n4 tokens in [^\n]*\n$")

    def test_conversations_are_rendered_for_clients(self):
        # The embedded model has no template: the refusal is the tokenizer's.
        with Up() as up:
            client = Client(up.endpoint)
            chat = tokenizer_pb2.ApplyChatTemplateRequest(messages=[{"role": "user", "content": "Hello"}])
            with self.assertRaises(grpc.RpcError) as refused:
                client.unary("ApplyChatTemplate", chat, tokenizer_pb2.ApplyChatTemplateResponse)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("template", refused.exception.details())

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

    def test_an_open_stream_survives_kill_9_of_any_process_behind_it(self):
        with Up("--tp", "2", "--pp", "2") as up:
            client = Client(up.endpoint)
            expected = text_of(client.generate(request(300, seed=3)))
            for name in ("sluice-tokenizer", "sluice-embedding", "sluice-sampler", "sluice-shard"):
                for victim in [p for p, n in children_of(up.process.pid).items() if n == name]:
                    with self.subTest(name=name, pid=victim):
                        chunks = []

                        def on_chunk():
                            chunks.append(0)
                            if len(chunks) == 20:
                                os.kill(victim, signal.SIGKILL)

                        self.assertEqual(text_of(client.generate(request(300, seed=3)), on_chunk), expected)
                        self.assertNotIn(victim, children_of(up.process.pid))
            status = client.unary("GetStatus", status_pb2.GetStatusRequest(), status_pb2.GetStatusResponse)
            self.assertGreaterEqual(status.num_recoveries, 5)

    def test_options_that_look_back_survive_kill_9_and_resume(self):
        """Penalties, n-grams and DRY count tokens in the sampler: a new one is told them again."""
        def looking_back():
            message = request(200, seed=5)
            message.sampling.repetition_penalty = 1.1
            message.sampling.presence_penalty = 0.25
            message.sampling.frequency_penalty = 0.125
            message.sampling.dry_multiplier = 0.5
            message.sampling.no_repeat_ngram_size = 5
            message.sampling.min_p = 0.02
            message.sampling.logit_bias[300] = 2.5
            message.n = 2
            return message

        def tokens_of(responses, on_chunk=lambda: None):
            tokens = [[], []]
            for response in responses:
                if response.HasField("chunk"):
                    tokens[response.chunk.sequence].extend(response.chunk.token_ids)
                    on_chunk()
            return tokens

        with Up("--pp", "2") as up:
            client = Client(up.endpoint)
            expected = tokens_of(client.generate(looking_back()))
            self.assertEqual([len(tokens) for tokens in expected], [200, 200])
            self.assertNotEqual(*expected)
            plain = looking_back()
            plain.sampling.CopyFrom(request(1, seed=5).sampling)
            self.assertNotEqual(tokens_of(client.generate(plain)), expected)
            for name in ("sluice-sampler", "sluice-shard"):
                with self.subTest(name=name):
                    victim = next(p for p, n in children_of(up.process.pid).items() if n == name)
                    chunks = []

                    def on_chunk():
                        chunks.append(0)
                        if len(chunks) == 60:
                            os.kill(victim, signal.SIGKILL)

                    self.assertEqual(tokens_of(client.generate(looking_back()), on_chunk), expected)
                    self.assertNotIn(victim, children_of(up.process.pid))
            resumed = looking_back()
            for tokens, known in zip(expected, (70, 3)):
                resumed.resume.add(token_ids=tokens[:known])
            rest = tokens_of(client.generate(resumed))
            self.assertEqual([expected[0][:70] + rest[0], expected[1][:3] + rest[1]], expected)

    def test_drafts_survive_kill_9(self):
        """Tokens computed before they are chosen, some of them wrong: the stream is that without drafts."""
        def drafted(expected=None):
            message = request(200, seed=11)
            message.sampling.repetition_penalty = 1.1
            message.sampling.no_repeat_ngram_size = 5
            if expected is None:
                message.drafts.decline = True
            else:
                message.drafts.expected_token_ids.extend(
                    token if i % 5 else 0 for i, token in enumerate(expected))
            return message

        def tokens_of(responses, on_chunk=lambda: None):
            tokens, usage = [], None
            for response in responses:
                if response.HasField("chunk"):
                    tokens.extend(response.chunk.token_ids)
                    on_chunk()
                else:
                    usage = response.finished.usage
            return tokens, usage

        with Up("--tp", "2") as up:
            client = Client(up.endpoint)
            plain, usage = tokens_of(client.generate(drafted()))
            self.assertEqual((len(plain), usage.num_drafted_tokens), (200, 0))
            for name in ("sluice-sampler", "sluice-shard", "sluice-embedding"):
                with self.subTest(name=name):
                    victim = next(p for p, n in children_of(up.process.pid).items() if n == name)
                    chunks = []

                    def on_chunk():
                        chunks.append(0)
                        if len(chunks) == 15:
                            os.kill(victim, signal.SIGKILL)

                    tokens, usage = tokens_of(client.generate(drafted(plain)), on_chunk)
                    self.assertEqual(tokens, plain)
                    self.assertGreater(usage.num_accepted_draft_tokens, 20)
                    self.assertGreater(usage.num_drafted_tokens, usage.num_accepted_draft_tokens)
                    self.assertNotIn(victim, children_of(up.process.pid))

    def test_the_orchestrator_is_restarted(self):
        with Up() as up:
            victim = next(p for p, n in children_of(up.process.pid).items() if n == "sluice-orchestrator")
            os.kill(victim, signal.SIGKILL)
            text = sluice("generate", "--endpoint", up.endpoint, "--prompt", PROMPT, "--max_tokens", "5").stdout
            self.assertTrue(text)

    def test_many_clients_while_processes_die(self):
        with Up("--tp", "2") as up:
            expected = [text_of(Client(up.endpoint).generate(request(120, seed=i))) for i in range(8)]
            texts = [None] * 8

            def run(i):
                texts[i] = text_of(Client(up.endpoint).generate(request(120, seed=i)))

            threads = [threading.Thread(target=run, args=(i,)) for i in range(8)]
            for thread in threads:
                thread.start()
            shard = next(p for p, n in children_of(up.process.pid).items() if n == "sluice-shard")
            os.kill(shard, signal.SIGKILL)
            for thread in threads:
                thread.join()
            self.assertEqual(texts, expected)

    def test_a_process_that_hangs_is_replaced(self):
        with Up("--tp", "2", "--hang_timeout", "1") as up:
            client = Client(up.endpoint)
            expected = text_of(client.generate(request(300, seed=3)))
            for name in ("sluice-tokenizer", "sluice-sampler", "sluice-shard"):
                victim = [p for p, n in children_of(up.process.pid).items() if n == name][-1]
                with self.subTest(name=name):
                    chunks = []

                    def on_chunk():
                        chunks.append(0)
                        if len(chunks) == 20:
                            os.kill(victim, signal.SIGSTOP)

                    self.assertEqual(text_of(client.generate(request(300, seed=3)), on_chunk), expected)
                    self.assertNotIn(victim, children_of(up.process.pid))

    def test_generate_goes_on_where_the_orchestrator_was_lost(self):
        flags = ["--prompt", PROMPT, "--max_tokens", "400", "--ignore_eos", "--json"]

        def pieces_of(endpoint, on_piece):
            process = subprocess.Popen([SLUICE, "generate", "--endpoint", endpoint, *flags], stdout=subprocess.PIPE,
                                       text=True)
            pieces = []
            for line in process.stdout:
                pieces.append(json.loads(line))
                on_piece(len(pieces))
            process.stdout.close()
            self.assertEqual(process.wait(60), 0)
            return pieces

        def outcome(pieces):
            return "".join(p["text"] for p in pieces[:-1]), [t for p in pieces[:-1] for t in p["token_ids"]]

        with Up("--hang_timeout", "1") as up:
            for kill in (signal.SIGKILL, signal.SIGSTOP):
                def on_piece(count):
                    if count == 20:
                        os.kill(next(p for p, n in children_of(up.process.pid).items() if n == "sluice-orchestrator"), kill)

                pieces = pieces_of(f"127.0.0.1:1,{up.endpoint}", on_piece)
                # The seed was the server's; asked for by it, the same text comes undisturbed.
                again = sluice("generate", "--endpoint", up.endpoint, *flags, "--seed", str(pieces[-1]["seed"])).stdout
                expected = [json.loads(line) for line in again.splitlines()]
                self.assertEqual(outcome(pieces), outcome(expected))

    def test_an_orchestrator_stands_by_until_the_other_dies(self):
        def orchestrator_of(up):
            return next(p for p, n in children_of(up.process.pid).items() if n == "sluice-orchestrator")

        flags = ["--prompt", PROMPT, "--max_tokens", "300", "--ignore_eos", "--seed", "3"]
        with Up("--tp", "2") as up, tempfile.TemporaryDirectory() as folder:
            expected = sluice("generate", "--endpoint", up.endpoint, *flags).stdout
            with open(f"/proc/{orchestrator_of(up)}/cmdline") as file:
                arguments = file.read().split("\0")[:-1]
            second = f"unix:{folder}/second"
            arguments[arguments.index("--listen") + 1] = second
            arguments[arguments.index("--health_listen") + 1] = f"unix:{folder}/health"
            process = subprocess.Popen(arguments)
            try:
                client = Client(second)
                detail = ""
                while "belongs to the orchestrator" not in detail:
                    try:
                        list(client.generate(request(1), timeout=5))
                    except grpc.RpcError as error:
                        detail = error.details()
                # It takes nothing, and a client that comes to it first goes on to the other.
                both = f"{second},{up.endpoint}"
                self.assertEqual(sluice("generate", "--endpoint", both, *flags).stdout, expected)
                status = Client(up.endpoint).unary("GetStatus", status_pb2.GetStatusRequest(),
                                                   status_pb2.GetStatusResponse)
                self.assertEqual(status.num_recoveries, 0)
                # Where nobody starts the first one again, the second takes over, in the middle of a stream too.
                stream = subprocess.Popen([SLUICE, "generate", "--endpoint", f"{up.endpoint},{second}", *flags],
                                          stdout=subprocess.PIPE, text=True)
                begun = stream.stdout.read(20)
                os.kill(up.process.pid, signal.SIGSTOP)
                os.kill(orchestrator_of(up), signal.SIGKILL)
                killed = time.monotonic()
                rest = stream.stdout.read()
                print(f"the stream ended {time.monotonic() - killed:.2f} s after the death", file=sys.stderr)
                stream.stdout.close()
                self.assertEqual(stream.wait(60), 0)
                self.assertEqual(begun + rest, expected)
            finally:
                os.kill(up.process.pid, signal.SIGCONT)
                process.terminate()
                process.wait(30)

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
