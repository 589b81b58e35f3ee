"""OpenAI's API over a live pipeline.

Usage: openai_test.py BIN_DIR [unittest arguments]
"""

import json
import math
import subprocess
import sys
import tempfile
import threading
import unittest

from served import Served, call

BIN = sys.argv[1]
PROMPT = "Once upon a time there was a king who"
served = None


tenants = None


def setUpModule():
    global served, tenants
    tenants = tempfile.NamedTemporaryFile("w", suffix=".json")
    json.dump({"default": {"priorities": [-3, -1, 0, 1]}}, tenants)
    tenants.flush()
    served = Served(BIN, "--tenants", tenants.name)


def tearDownModule():
    served.stop()
    tenants.close()


def complete(**fields):
    body = {"model": "storyteller", "prompt": PROMPT, "max_tokens": 12, "temperature": 0, **fields}
    return call(served.address, "POST", "/v1/completions", body)


def chat(**fields):
    body = {"model": "storyteller", "messages": [{"role": "user", "content": "Tell me of the king."}],
            "max_tokens": 12, "temperature": 0, **fields}
    return call(served.address, "POST", "/v1/chat/completions", body)


def sluice(*arguments, stdin=""):
    done = subprocess.run([f"{BIN}/sluice", *arguments, "--endpoint", served.endpoint], input=stdin,
                          capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def ids_of(text, *flags):
    return json.loads(sluice("tokenize", *flags, stdin=json.dumps(text) + "\n"))


def text_of(answer, index=0):
    return "".join(choice.get("text", choice.get("delta", {}).get("content") or "")
                   for event in answer.events[:-1] for choice in event["choices"] if choice["index"] == index)


class ModelsTest(unittest.TestCase):
    def test_up_says_where_it_serves(self):
        self.assertRegex(served.lines[0], r"^ready 127\.0\.0\.1:\d+$")
        self.assertRegex(served.lines[1], r"^http 127\.0\.0\.1:\d+$")
        self.assertEqual(call(served.address, "GET", "/health").json, {"status": "ok"})

    def test_models(self):
        listed = call(served.address, "GET", "/v1/models").json
        self.assertEqual([m["id"] for m in listed["data"]], ["storyteller"])
        self.assertEqual(call(served.address, "GET", "/v1/models/storyteller").json, listed["data"][0])
        missing = call(served.address, "GET", "/v1/models/gpt-9")
        self.assertEqual((missing.status, missing.error["code"]), (404, "model_not_found"))


class CompletionsTest(unittest.TestCase):
    def test_text_is_what_grpc_gives(self):
        expected = sluice("generate", "--prompt", PROMPT, "--max_tokens", "12", "--temperature", "0")
        answer = complete().json
        self.assertEqual(answer["choices"][0]["text"], expected.removesuffix("\n"))
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 12)
        self.assertEqual(answer["usage"]["total_tokens"], answer["usage"]["prompt_tokens"] + 12)

    def test_a_stream_has_the_same_text(self):
        expected = complete().json
        answer = complete(stream=True, stream_options={"include_usage": True})
        self.assertEqual(answer.headers["content-type"], "text/event-stream; charset=utf-8")
        self.assertEqual(answer.events[-1], "[DONE]")
        self.assertEqual(text_of(answer), expected["choices"][0]["text"])
        self.assertEqual(answer.events[-2]["usage"]["completion_tokens"], 12)
        self.assertEqual(answer.events[-2]["choices"], [])
        self.assertTrue(all(event["usage"] is None for event in answer.events[:-2]))
        finish = [c["finish_reason"] for e in answer.events[:-1] for c in e["choices"]]
        self.assertEqual(finish[-1], "length")
        self.assertEqual(set(finish[:-1]), {None})

    def test_several_prompts_and_choices(self):
        answer = complete(prompt=[PROMPT, "The wolf"], n=2, temperature=1, seed=3).json
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        alone = complete(prompt="The wolf", n=2, temperature=1, seed=3).json
        self.assertEqual([c["text"] for c in answer["choices"][2:]], [c["text"] for c in alone["choices"]])
        self.assertNotEqual(alone["choices"][0]["text"], alone["choices"][1]["text"])
        streamed = complete(prompt=[PROMPT, "The wolf"], n=2, temperature=1, seed=3, stream=True)
        self.assertEqual([text_of(streamed, i) for i in range(4)], [c["text"] for c in answer["choices"]])

    def test_token_ids_are_a_prompt(self):
        ids = ids_of(PROMPT)
        self.assertEqual(complete(prompt=ids).json["choices"][0]["text"], complete().json["choices"][0]["text"])
        both = complete(prompt=[ids, ids[:4]]).json["choices"]
        self.assertEqual(both[1]["text"], complete(prompt=ids[:4]).json["choices"][0]["text"])
        cut = complete(truncate_prompt_tokens=4).json
        self.assertEqual(cut["choices"][0]["text"], complete(prompt=ids[-4:]).json["choices"][0]["text"])
        self.assertEqual(cut["usage"]["prompt_tokens"], 4)

    def test_stopping(self):
        text = complete(max_tokens=40).json["choices"][0]["text"]
        stop = text[20:24]
        ended = complete(max_tokens=40, stop=stop).json["choices"][0]
        self.assertEqual(ended["text"], text[:text.index(stop)])
        self.assertEqual((ended["finish_reason"], ended["stop_reason"]), ("stop", stop))
        kept = complete(max_tokens=40, stop=["zzz", stop], include_stop_str_in_output=True).json["choices"][0]
        self.assertEqual(kept["text"], text[:text.index(stop) + len(stop)])
        token = ids_of(text)[4]
        by_token = complete(max_tokens=40, stop_token_ids=[token]).json["choices"][0]
        self.assertEqual((by_token["finish_reason"], by_token["stop_reason"]), ("stop", token))

    def test_logprobs(self):
        plain = complete(logprobs=3).json["choices"][0]
        logprobs = plain["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), plain["text"])
        self.assertEqual(len(logprobs["token_logprobs"]), 12)
        for token, value, top, offset in zip(*(logprobs[k] for k in (
                "tokens", "token_logprobs", "top_logprobs", "text_offset"))):
            self.assertAlmostEqual(max(top.values()), value, places=5)
            self.assertEqual(plain["text"][offset:offset + len(token)], token)
        streamed = complete(logprobs=3, stream=True)
        tokens = [t for e in streamed.events[:-1] for c in e["choices"] if c["logprobs"] for t in c["logprobs"]["tokens"]]
        self.assertEqual(tokens, logprobs["tokens"])

    def test_echo(self):
        generated = complete().json["choices"][0]["text"]
        self.assertEqual(complete(echo=True).json["choices"][0]["text"], PROMPT + generated)
        self.assertEqual(text_of(complete(echo=True, stream=True)), PROMPT + generated)
        score = json.loads(sluice("score", "--text", PROMPT, "--json"))
        scored = complete(echo=True, max_tokens=0, logprobs=1).json
        self.assertEqual(scored["choices"][0]["text"], PROMPT)
        self.assertEqual(scored["usage"]["completion_tokens"], 0)
        ours = scored["choices"][0]["logprobs"]["token_logprobs"]
        self.assertIsNone(ours[0])
        for a, b in zip(ours[1:], score["logprobs"][1:]):
            self.assertTrue(math.isclose(a, b, abs_tol=1e-5))
        whole = complete(echo=True, logprobs=1).json["choices"][0]
        # The token that the tokenizer puts before a text has a text of its own.
        self.assertEqual("".join(whole["logprobs"]["tokens"][1:]), whole["text"])

    def test_beams_are_those_of_the_command(self):
        lines = sluice("generate", "--prompt", PROMPT, "--beam_width", "4", "--num_return", "2", "--length_penalty", "0.5",
                       "--early_stopping", "never", "--max_tokens", "12", "--json").splitlines()
        events = [json.loads(line) for line in lines]
        texts = ["".join(e["text"] for e in events[:-1] if e["sequence"] == i) for i in range(2)]
        asked = {"use_beam_search": True, "n": 2, "best_of": 4, "length_penalty": 0.5, "early_stopping": "never"}
        choices = complete(**asked).json["choices"]
        self.assertEqual([choice["text"] for choice in choices], texts)
        self.assertEqual([choice["score"] for choice in choices], events[-1]["scores"])
        streamed = complete(**asked, stream=True)
        self.assertEqual([text_of(streamed, i) for i in range(2)], texts)
        drawn = complete(beam_width=3, n=3, stochastic_beams=True, temperature=1, seed=5).json["choices"]
        self.assertEqual(len({choice["text"] for choice in drawn}), 3)

    def test_best_of(self):
        asked = {"temperature": 1, "seed": 8, "logprobs": 0}
        drawn = complete(n=4, **asked).json["choices"]
        best = complete(n=1, best_of=4, **asked).json
        by_mean = max(drawn, key=lambda choice: sum(choice["logprobs"]["token_logprobs"]))
        self.assertEqual(best["choices"][0]["text"], by_mean["text"])
        self.assertEqual(best["usage"]["completion_tokens"], 48)

    def test_prompt_logprobs(self):
        score = json.loads(sluice("score", "--text", PROMPT, "--json"))
        prompt = complete(prompt_logprobs=2).json["choices"][0]["prompt_logprobs"]
        self.assertEqual((len(prompt), prompt[0]), (len(score["token_ids"]), None))
        for id, logprob, tokens in zip(score["token_ids"][1:], score["logprobs"][1:], prompt[1:]):
            self.assertAlmostEqual(tokens[str(id)]["logprob"], logprob, places=5)
            self.assertIn(len(tokens), (2, 3))
        self.assertIsNone(chat(prompt_logprobs=0).json["prompt_logprobs"][0])

    def test_service_tier_and_priority(self):
        self.assertEqual(complete(service_tier="flex").json["service_tier"], "flex")
        self.assertEqual(complete(priority=3).status, 200)
        refused = complete(priority=-9)  # larger than any that the operator grants
        self.assertEqual(refused.status, 400)
        self.assertIn("priority is 9", refused.json["error"]["message"])


class SamplingTest(unittest.TestCase):
    """Every parameter does what it does over gRPC."""

    # name: (value, other parameters that it needs to matter)
    PARAMETERS = {
        "min_p": (0.4, {}), "typical_p": (0.3, {}), "top_n_sigma": (0.5, {}), "top_k": (2, {}), "top_p": (0.3, {}),
        "xtc_probability": (1.0, {"xtc_threshold": 0.05}), "dynatemp_range": (0.9, {"dynatemp_exponent": 2.0}),
        "repetition_penalty": (3.0, {}), "presence_penalty": (2.0, {}), "frequency_penalty": (2.0, {}),
        "no_repeat_ngram_size": (1, {}),
        "dry_multiplier": (9.0, {"dry_base": 2.0, "dry_allowed_length": 0, "dry_range": 100}),
        "allowed_token_ids": ([300, 301, 302, 303], {}),
    }
    ASK = {"temperature": 1, "seed": 4, "max_tokens": 40, "ignore_eos": True}

    def grpc_text(self, **parameters):
        flags = []
        for name, value in parameters.items():
            flags += [f"--{name}", ",".join(map(str, value)) if isinstance(value, list) else str(value)]
        return sluice("generate", "--prompt", PROMPT, "--ignore_eos", "--seed", "4", "--max_tokens", "40", "--temperature", "1",
                      *flags).removesuffix("\n")

    def test_each_has_its_effect(self):
        plain = complete(**self.ASK).json["choices"][0]["text"]
        for name, (value, others) in self.PARAMETERS.items():
            with self.subTest(parameter=name):
                text = complete(**self.ASK, **{name: value}, **others).json["choices"][0]["text"]
                self.assertEqual(text, self.grpc_text(**{name: value}, **others))
                self.assertNotEqual(text, plain)

    def test_lists_of_tokens(self):
        plain = complete(max_tokens=6).json["choices"][0]["text"]
        first = ids_of(PROMPT + plain)[len(ids_of(PROMPT))]
        for change in ({"banned_token_ids": [first]}, {"bad_words_ids": [[first]]}, {"logit_bias": {str(first): -100}}):
            with self.subTest(change=change):
                self.assertNotEqual(complete(max_tokens=6, **change).json["choices"][0]["text"], plain)
        self.assertEqual(complete(max_tokens=6, logit_bias={}).json["choices"][0]["text"], plain)

    def test_words_are_not_written(self):
        plain = complete(max_tokens=40).json["choices"][0]["text"]
        word = max(plain.split()[1:], key=len)
        without = complete(max_tokens=40, bad_words=[word]).json["choices"][0]["text"]
        self.assertNotIn(f" {word} ", without)
        self.assertNotEqual(without, plain)

    def test_min_tokens(self):
        token = ids_of(complete(max_tokens=30).json["choices"][0]["text"])[4]
        ended = complete(max_tokens=30, stop_token_ids=[token]).json["usage"]["completion_tokens"]
        longer = complete(max_tokens=30, stop_token_ids=[token], min_tokens=20).json["usage"]["completion_tokens"]
        self.assertLess(ended, 20)
        self.assertGreater(longer, 20)

    def test_processed_logprobs_add_up_to_one(self):
        choice = complete(logprobs=20, top_k=2, temperature=1, logprobs_mode="processed_logprobs").json["choices"][0]
        for top in choice["logprobs"]["top_logprobs"]:
            self.assertAlmostEqual(sum(math.exp(value) for value in top.values()), 1, places=4)

    def test_chats_responses_and_messages_take_them_too(self):
        messages = [{"role": "user", "content": "Tell me of the king."}]
        ask = {"temperature": 0, "repetition_penalty": 3.0, "no_repeat_ngram_size": 2}
        text = chat(messages=messages, **ask).json["choices"][0]["message"]["content"]
        self.assertNotEqual(text, chat(messages=messages).json["choices"][0]["message"]["content"])
        response = call(served.address, "POST", "/v1/responses", {"input": messages, "max_output_tokens": 12, **ask}).json
        self.assertEqual(response["output"][0]["content"][0]["text"], text)
        message = call(served.address, "POST", "/v1/messages", {"messages": messages, "max_tokens": 12, **ask}).json
        self.assertEqual(message["content"][0]["text"], text)

    def test_what_is_wrong_is_named(self):
        for name, value, code in (
                ("min_p", 2, None), ("presence_penalty", 9, None), ("repetition_penalty", 0, None), ("xtc_threshold", 0.9, None),
                ("typical_p", "x", "invalid_type"), ("logit_bias", {"1": 200}, None), ("logit_bias", {"a": 1}, "invalid_value"),
                ("logit_bias", {"1": None}, "invalid_value"), ("banned_token_ids", [-1], None), ("min_tokens", 99, None),
                ("bad_words", [""], "invalid_value"), ("bad_words_ids", [[]], None), ("logprobs_mode", "x", "invalid_value")):
            with self.subTest(name=name, value=value):
                answer = complete(**{name: value})
                self.assertEqual((answer.status, answer.error["param"], answer.error["code"]), (400, name, code), answer.text)
        self.assertEqual(complete(bad_words_ids=[[1], [2.5]]).error["param"], "bad_words_ids[1][0]")


class ChatTest(unittest.TestCase):
    def test_answers(self):
        answer = chat().json
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")
        prompt = ids_of("user: Tell me of the king.\nassistant:", "--no_special")
        expected = complete(prompt=prompt).json["choices"][0]["text"]
        self.assertEqual(answer["choices"][0]["message"]["content"], expected)

    def test_streams(self):
        expected = chat().json["choices"][0]["message"]["content"]
        answer = chat(stream=True)
        self.assertEqual(answer.events[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(text_of(answer), expected)
        self.assertEqual(answer.events[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual({e["object"] for e in answer.events[:-1]}, {"chat.completion.chunk"})

    def test_messages_of_every_kind(self):
        messages = [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "done"}]
        answer = chat(messages=messages)
        text = "system: Be kind.\nuser: Hello\nthere\nassistant: \ntool: done\nassistant:"
        expected = complete(prompt=ids_of(text, "--no_special"))
        self.assertEqual(answer.json["choices"][0]["message"]["content"], expected.json["choices"][0]["text"])

    def test_logprobs(self):
        choice = chat(logprobs=True, top_logprobs=2).json["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(bytes(b for t in content for b in t["bytes"]).decode(), choice["message"]["content"])
        self.assertTrue(all(len(t["top_logprobs"]) == 2 for t in content))

    def test_max_completion_tokens(self):
        self.assertEqual(chat(max_tokens=None, max_completion_tokens=3).json["usage"]["completion_tokens"], 3)

    def test_a_prediction_changes_no_text(self):
        expected = chat(max_tokens=60).json["choices"][0]["message"]["content"]
        half = len(expected) // 2
        for content in (expected, expected[:half] + " and then " + expected[half:], "x" * 4000,
                        [{"type": "text", "text": expected[:half]}, {"type": "text", "text": expected[half:]}]):
            answer = chat(max_tokens=60, prediction={"type": "content", "content": content}).json
            self.assertEqual(answer["choices"][0]["message"]["content"], expected)

    def test_a_prediction_is_drafted(self):
        # Where a step takes longer with more rows nothing is drafted, but for trying.
        for _ in range(20):
            expected = chat(max_tokens=60, decline_drafts=True).json["choices"][0]["message"]["content"]
            usage = chat(max_tokens=60, prediction={"type": "content", "content": expected}).json["usage"]
            details = usage["completion_tokens_details"]
            if details["accepted_prediction_tokens"] > 0:
                return
        self.fail("nothing of 20 predictions was accepted")


class ErrorsTest(unittest.TestCase):
    def check(self, answer, status, param, code, part=""):
        self.assertEqual((answer.status, answer.error["param"], answer.error["code"]), (status, param, code), answer.text)
        self.assertIn(part, answer.error["message"])
        self.assertIn("x-request-id", answer.headers)

    def test_what_is_wrong_is_named(self):
        self.check(complete(temperature=-1), 400, "temperature", None, "temperature is -1")
        self.check(complete(temperature="hot"), 400, "temperature", "invalid_type")
        self.check(complete(top_p=1.5), 400, "top_p", None)
        self.check(complete(max_tokens=0), 400, "max_tokens", "invalid_value")
        self.check(complete(max_tokens=-1), 400, "max_tokens", "integer_below_min_value")
        self.check(complete(n=99), 400, "n", "integer_above_max_value")
        self.check(complete(model="gpt-9"), 404, "model", "model_not_found", "gpt-9")
        self.check(complete(foo=1), 400, "foo", "unknown_parameter", "foo")
        self.check(complete(suffix="end"), 400, "suffix", "unsupported_parameter")
        self.check(complete(prompt=[]), 400, "prompt", "invalid_type")
        self.check(complete(prompt=""), 400, "prompt", None, "empty")
        self.check(complete(prompt=[1, 999999]), 400, "prompt", None, "999999")
        self.check(complete(stream_options={}), 400, "stream_options", "invalid_value")
        self.check(complete(best_of=99), 400, "best_of", "integer_above_max_value")
        self.check(complete(best_of=1, n=2), 400, "best_of", None, "n, which is 2")
        self.check(complete(length_penalty=1), 400, "length_penalty", "invalid_value", "use_beam_search")
        self.check(complete(use_beam_search=True, early_stopping="often"), 400, "early_stopping", "invalid_type")
        self.check(complete(beam_width=65), 400, "beam_width", None, "1 to 64")
        self.check(complete(use_beam_search=True, top_p=0.5), 400, "top_p", None, "contradict")
        self.check(complete(prompt_logprobs=1, stream=True), 400, "prompt_logprobs", "invalid_value", "stream")
        self.check(complete(service_tier="gold"), 400, "service_tier", "invalid_value")
        self.check(complete(service_tier="flex", priority=3), 400, "priority", "invalid_value", "contradict")
        self.check(complete(priority=-9), 400, "priority", None)
        self.check(complete(decline_drafts=True, max_draft_tokens=3), 400, "decline_drafts", None, "contradict")
        self.check(complete(max_draft_tokens=33), 400, "max_draft_tokens", "integer_above_max_value")
        self.check(complete(guided_regex="a", ignore_eos=True), 400, "ignore_eos", None, "contradict")
        self.check(complete(guided_regex="(a"), 400, "guided_regex", None, "byte 2")
        self.check(complete(guided_json={"not": {}}), 400, "guided_json", None)
        self.check(complete(guided_grammar="root ::= x"), 400, "guided_grammar", None, "the rule x")
        self.check(complete(structured_outputs={"json": "{"}), 400, "structured_outputs", None)
        self.check(complete(guided_json={}, guided_regex="a"), 400, "guided_regex", "invalid_value", "at most one")
        self.check(chat(response_format={"type": "json_schema", "json_schema": {"schema": {"unevaluatedItems": False}}}), 400,
                   "response_format", None, "#/unevaluatedItems")
        self.check(chat(max_tokens=4, max_completion_tokens=5), 400, "max_completion_tokens", "invalid_value", "contradict")
        self.check(chat(messages=[]), 400, "messages", "empty_array")
        self.check(chat(messages=None), 400, "messages", "missing_required_parameter")
        self.check(chat(messages=[{"content": "x"}]), 400, "messages[0].role", "missing_required_parameter")
        self.check(chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]), 400,
                   "messages[0].content[0].type", "unsupported_value")
        self.check(chat(top_logprobs=2), 400, "top_logprobs", "invalid_value")
        self.check(chat(tool_choice="required"), 400, "tool_choice", "invalid_value", "tools")
        self.check(chat(functions=[]), 400, "functions", "unsupported_parameter")
        self.check(chat(prediction="x"), 400, "prediction", "invalid_type")
        self.check(chat(prediction={"type": "text", "content": "x"}), 400, "prediction.type", "invalid_value", "content")
        self.check(chat(prediction={"type": "content"}), 400, "prediction.content", "missing_required_parameter")
        self.check(chat(prediction={"type": "content", "content": 3}), 400, "prediction.content", "invalid_type")
        self.check(chat(prediction={"type": "content", "content": "x"}, decline_drafts=True), 400, "prediction", "invalid_value")
        self.check(chat(prediction={"type": "content", "content": "x"}, use_beam_search=True, n=2), 400, "prediction",
                   "invalid_value")
        self.check(chat(response_format={"type": "xml"}), 400, "response_format.type", "invalid_value", "json_schema")
        self.check(chat(response_format={"type": "json_schema"}), 400, "response_format.json_schema",
                   "missing_required_parameter")
        self.check(chat(response_format={"type": "json_schema", "json_schema": {"name": "x"}}), 400,
                   "response_format.json_schema.schema", "missing_required_parameter")
        self.check(complete(guided_choice=["a"], guided_regex="a"), 400, "guided_choice", "invalid_value", "at most one")
        self.check(complete(guided_choice=[""]), 400, "guided_choice", "invalid_type")
        self.check(complete(guided_json=7), 400, "guided_json", "invalid_type")
        self.check(complete(guided_regex="("), 400, "guided_regex", None, "regex")
        self.check(complete(structured_outputs={"structural_tag": {}}), 400, "structured_outputs.structural_tag",
                   "unsupported_parameter")

    def test_ids(self):
        answer = call(served.address, "GET", "/v1/models", headers={"x-request-id": "mine-1"})
        self.assertEqual(answer.headers["x-request-id"], "mine-1")
        drawn = call(served.address, "GET", "/v1/models", headers={"x-request-id": "a b"}).headers["x-request-id"]
        self.assertTrue(drawn.startswith("req_"))

    def test_paths(self):
        missing = call(served.address, "GET", "/v1/nothing")
        self.assertEqual((missing.status, missing.error["type"]), (404, "invalid_request_error"))
        wrong = call(served.address, "GET", "/v1/completions")
        self.assertEqual((wrong.status, wrong.headers["allow"]), (405, "POST"))


class ConstraintTest(unittest.TestCase):
    """Texts that keep what was asked for, by each of its names."""

    SCHEMA = {"type": "object", "properties": {"zebra": {"type": "boolean"}, "apple": {"enum": ["red", "green"]}},
              "required": ["zebra", "apple"], "additionalProperties": False}

    def check(self, text):
        value = json.loads(text)
        self.assertEqual(list(value), ["zebra", "apple"], "in the schema's order")
        self.assertIsInstance(value["zebra"], bool)
        self.assertIn(value["apple"], ("red", "green"))

    def text(self, **fields):
        answer = complete(max_tokens=200, seed=4, temperature=0.9, **fields)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "stop")
        return answer.json["choices"][0]["text"]

    def test_a_schema(self):
        named = {"type": "json_schema", "json_schema": {"name": "fruit", "strict": True, "schema": self.SCHEMA}}
        answer = chat(response_format=named, max_tokens=200)
        self.assertEqual(answer.status, 200, answer.text)
        self.check(answer.json["choices"][0]["message"]["content"])
        self.check(self.text(guided_json=self.SCHEMA))
        self.check(self.text(guided_json=json.dumps(self.SCHEMA)))
        self.check(self.text(structured_outputs={"json": self.SCHEMA}))
        answer = call(served.address, "POST", "/v1/responses", {
            "input": "hi", "max_output_tokens": 200,
            "text": {"format": {"type": "json_schema", "name": "fruit", "schema": self.SCHEMA}}})
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.json["text"]["format"]["name"], "fruit")
        self.check(answer.json["output"][0]["content"][0]["text"])

    def test_an_object_of_any_kind(self):
        text = chat(response_format={"type": "json_object"}, max_tokens=300, seed=1).json["choices"][0]["message"]["content"]
        self.assertTrue(text.startswith("{"), text)
        self.assertTrue(self.text(structured_outputs={"json_object": False, "choice": ["x"]}) == "x")

    def test_what_cannot_be_kept_is_the_requests_fault(self):
        answer = complete(guided_regex="(?<=a)b")
        self.assertEqual((answer.status, answer.error["type"]), (400, "invalid_request_error"), answer.text)

    def test_patterns_choices_and_grammars(self):
        self.assertRegex(self.text(guided_regex="[ab]{3}-[0-9]{2}"), "^[ab]{3}-[0-9]{2}$")
        self.assertIn(self.text(guided_choice=["left", "right"]), ("left", "right"))
        self.assertRegex(self.text(guided_grammar='root ::= ("ha" | "ho")+ "!"'), "^(ha|ho)+!$")
        self.assertRegex(self.text(structured_outputs={"regex": "yes|no"}), "^(yes|no)$")


class SurvivalTest(unittest.TestCase):
    def streams_through(self, program):
        expected = complete(max_tokens=300, ignore_eos=True, temperature=1, seed=5).json["choices"][0]["text"]
        result = []
        thread = threading.Thread(target=lambda: result.append(
            complete(max_tokens=300, ignore_eos=True, temperature=1, seed=5, stream=True)))
        thread.start()
        while served.status()["num_running_sequences"] == 0 and thread.is_alive():
            pass
        served.kill(program)
        thread.join()
        self.assertEqual(text_of(result[0]), expected)

    def test_a_stream_survives_the_death_of_a_stage(self):
        self.streams_through("sluice-shard")

    def test_a_stream_survives_the_death_of_the_orchestrator(self):
        self.streams_through("sluice-orchestrator")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
