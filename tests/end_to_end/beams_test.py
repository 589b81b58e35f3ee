"""Beams: what the definition finds, and the same bits whatever happens meanwhile.

Usage: beams_test.py BIN_DIR PROTO_PYTHON_DIR [unittest arguments]
"""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

from beam_search import beam_search
from processes_test import PROMPT, STORYTELLER, Client, Up, generation_pb2, tokenizer_pb2

ORACLE = os.path.join(os.path.dirname(STORYTELLER), "..", "..", "shared", "oracle")
EARLY_STOPPING = {False: generation_pb2.EARLY_STOPPING_HEURISTIC, True: generation_pb2.EARLY_STOPPING_AT_ONCE,
                  "never": generation_pb2.EARLY_STOPPING_NEVER}


def beams(width, max_tokens, num_return=None, early_stopping=False, length_penalty=1.0, prompt=PROMPT):
    message = generation_pb2.GenerateRequest(max_tokens=max_tokens, logprobs=0)
    if isinstance(prompt, str):
        message.text = prompt
    else:
        message.token_ids.token_ids.extend(prompt)
    message.beams.beam_width = width
    message.beams.num_return = num_return or width
    message.beams.length_penalty = length_penalty
    message.beams.early_stopping = EARLY_STOPPING[early_stopping]
    return message


def outcome(responses):
    """[(tokens, log-probabilities, text, score, sum)] of every sequence."""
    parts, finished = {}, None
    for response in responses:
        if response.HasField("chunk"):
            chunk = response.chunk
            tokens, logprobs, text = parts.setdefault(chunk.sequence, ([], [], []))
            tokens.extend(chunk.token_ids)
            logprobs.extend(position.logprob for position in chunk.logprobs)
            text.append(chunk.text)
        elif response.HasField("finished"):
            finished = response.finished
    return [(*parts[end.sequence][:2], "".join(parts[end.sequence][2]), end.score, end.sum_logprob)
            for end in finished.sequences]


def after(client, prompt, repetition):
    """What beam_search() asks: the 20 most probable tokens behind the prompt and others, one call for each."""
    known = {}

    def logprobs_after(tokens):
        key = tuple(prompt + tokens)
        if key not in known:
            ask = generation_pb2.GenerateRequest(max_tokens=1, logprobs=20)
            ask.token_ids.token_ids.extend(key)
            ask.sampling.temperature = 0
            if repetition:  # of prompt and text alike
                ask.sampling.temperature, ask.sampling.top_k, ask.sampling.top_p = 1, 0, 1
                ask.sampling.repetition_penalty = repetition
                ask.logprobs_mode = generation_pb2.LOGPROBS_MODE_PROCESSED
            first = next(r.chunk for r in client.generate(ask) if r.HasField("chunk") and r.chunk.token_ids)
            known[key] = {top.token_id: top.logprob for top in first.logprobs[0].top}
        return known[key]

    return logprobs_after


class BeamsTest(unittest.TestCase):
    def test_finds_what_the_definition_finds(self):
        with Up() as up:
            client = Client(up.endpoint)
            model = client.unary("GetModel", generation_pb2.GetModelRequest(), generation_pb2.GetModelResponse)

            def ids_of(text, special):
                ask = tokenizer_pb2.TokenizeRequest(text=text.encode(), add_special_tokens=special)
                return list(client.unary("Tokenize", ask, tokenizer_pb2.TokenizeResponse).token_ids)

            # Tokens that often end a sentence stop it, too: the model's own end is rare.
            period = ids_of(".", False)[-1]
            for prompt, width, length, early, penalty, repetition in [
                    (PROMPT, 1, 12, False, 1.0, None), (PROMPT, 4, 12, False, 1.0, None), (PROMPT, 8, 10, "never", 0.0, None),
                    ("\"Who is there?\" asked", 5, 14, True, -1.0, None), ("The end.", 6, 10, False, 2.0, None),
                    (PROMPT, 5, 14, False, 1.0, 1.5)]:
                with self.subTest(prompt=prompt, width=width, repetition=repetition):
                    ask = beams(width, length, early_stopping=early, length_penalty=penalty, prompt=prompt)
                    ask.stop.stop_token_ids.append(period)
                    if repetition:
                        ask.sampling.repetition_penalty = repetition
                    found = outcome(client.generate(ask))
                    expected = beam_search(after(client, ids_of(prompt, True), repetition), width, length,
                                           list(model.eos_token_ids) + [period], penalty, early)
                    self.assertEqual([tokens for tokens, *_ in found], [text.tokens for text in expected])
                    self.assertEqual([logprobs for _, logprobs, *_ in found], [text.logprobs for text in expected])
                    for (_, _, _, score, total), text in zip(found, expected):
                        self.assertAlmostEqual(score, text.score, delta=1e-12)
                        self.assertEqual(total, text.total)

    @unittest.skipUnless(os.path.isdir(ORACLE), "needs ../shared/oracle")
    def test_finds_what_the_oracle_finds_of_tiny_models(self):
        sys.path.insert(0, ORACLE)
        import decoder
        import generate

        for preset in ("llama", "gpt2", "qwen3"):
            with self.subTest(preset=preset), tempfile.TemporaryDirectory() as folder:
                subprocess.run([sys.executable, os.path.join(ORACLE, "make_tiny_model.py"), folder, "--preset", preset,
                                "--dtype", "F32", "--seed", "3"], check=True, stdout=subprocess.DEVNULL)
                model = decoder.load(folder)
                prompt = [5, 17, 3, 44]
                expected = generate.beam_search(model, prompt, 10, beams=6, alpha=1.0, eos=(2, 9))
                with Up("--model", folder, "--weights", "f32") as up:
                    ask = beams(6, 10, early_stopping="never", prompt=prompt)
                    ask.stop.stop_token_ids.extend([2, 9])
                    found = outcome(Client(up.endpoint).generate(ask))
                self.assertEqual([tokens for tokens, *_ in found], [text.tokens for text in expected])
                for (_, _, _, score, _), text in zip(found, expected):
                    self.assertAlmostEqual(score, text.score, delta=1e-4)

    def test_goes_on_with_the_same_bits_on_two_ranks_and_through_kill_9(self):
        plain = beams(6, 120)
        stopped = beams(4, 60)
        stopped.stop.stop_strings.append(" the")
        penalised = beams(5, 60)
        penalised.sampling.repetition_penalty = 1.3
        drawn = generation_pb2.GenerateRequest(text=PROMPT, max_tokens=60)
        drawn.beams.beam_width = 5
        drawn.beams.stochastic = True
        drawn.sampling.seed = 4
        asks = [plain, stopped, penalised, drawn]
        for ask in asks:
            ask.stop.ignore_eos = True
        constrained = beams(3, 40)
        constrained.constraint.regex = r"( [a-z]+){4}\. [A-Z][a-z ]{0,20}\."
        asks.append(constrained)
        with Up() as up:
            expected = [outcome(Client(up.endpoint).generate(ask)) for ask in asks]
        for _, _, text, *_ in expected[-1]:
            self.assertRegex(text, f"^{constrained.constraint.regex}$")
        with Up("--tp", "2") as up:
            client = Client(up.endpoint)
            for name in ("sluice-shard", "sluice-tokenizer", "sluice-sampler", "sluice-embedding"):
                with self.subTest(killed=name):
                    calls = [client.generate(ask) for ask in asks]
                    first = next(calls[0])  # something has come
                    os.kill(up.pids(name)[-1], signal.SIGKILL)

                    def rest(call, ask):
                        if ask is plain:
                            yield first
                        yield from call

                    self.assertEqual([outcome(rest(call, ask)) for call, ask in zip(calls, asks)], expected)

    def test_generate_goes_on_where_the_orchestrator_was_lost(self):
        ask = beams(4, 200)
        ask.stop.ignore_eos = True
        with Up() as up:
            client = Client(up.endpoint)
            expected = outcome(client.generate(ask))
            call = client.generate(ask)
            begun = {}
            seed = 0
            for response in call:
                if response.HasField("started"):
                    seed = response.started.seed
                begun.setdefault(response.chunk.sequence, []).extend(response.chunk.token_ids)
                if len(begun.get(3, [])) > 10:
                    break
            call.cancel()
            resumed = generation_pb2.GenerateRequest()
            resumed.CopyFrom(ask)
            resumed.sampling.seed = seed
            for index in range(4):
                resumed.resume.add(token_ids=begun[index])
            rest = outcome(client.generate(resumed))
            self.assertEqual([begun[i] + rest[i][0] for i in range(4)], [tokens for tokens, *_ in expected])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
