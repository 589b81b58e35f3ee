"""The options of sampling over OpenAI's paths: each does what it does over gRPC.

Usage: openai_sampling_test.py BIN_DIR [unittest arguments]
"""

import math

from openai import PROMPT, ApiTest, main


class SamplingTest(ApiTest):
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
        return self.api.sluice("generate", "--prompt", PROMPT, "--ignore_eos", "--seed", "4", "--max_tokens", "40", "--temperature",
                      "1", *flags).removesuffix("\n")

    def test_each_has_its_effect(self):
        plain = self.api.complete(**self.ASK).json["choices"][0]["text"]
        for name, (value, others) in self.PARAMETERS.items():
            with self.subTest(parameter=name):
                text = self.api.complete(**self.ASK, **{name: value}, **others).json["choices"][0]["text"]
                self.assertEqual(text, self.grpc_text(**{name: value}, **others))
                self.assertNotEqual(text, plain)

    def test_lists_of_tokens(self):
        plain = self.api.complete(max_tokens=6).json["choices"][0]["text"]
        first = self.api.ids_of(PROMPT + plain)[len(self.api.ids_of(PROMPT))]
        for change in ({"banned_token_ids": [first]}, {"bad_words_ids": [[first]]}, {"logit_bias": {str(first): -100}}):
            with self.subTest(change=change):
                self.assertNotEqual(self.api.complete(max_tokens=6, **change).json["choices"][0]["text"], plain)
        self.assertEqual(self.api.complete(max_tokens=6, logit_bias={}).json["choices"][0]["text"], plain)

    def test_words_are_not_written(self):
        plain = self.api.complete(max_tokens=40).json["choices"][0]["text"]
        word = max(plain.split()[1:], key=len)
        without = self.api.complete(max_tokens=40, bad_words=[word]).json["choices"][0]["text"]
        self.assertNotIn(f" {word} ", without)
        self.assertNotEqual(without, plain)

    def test_min_tokens(self):
        token = self.api.ids_of(self.api.complete(max_tokens=30).json["choices"][0]["text"])[4]
        ended = self.api.complete(max_tokens=30, stop_token_ids=[token]).json["usage"]["completion_tokens"]
        longer = self.api.complete(max_tokens=30, stop_token_ids=[token], min_tokens=20).json["usage"]["completion_tokens"]
        self.assertLess(ended, 20)
        self.assertGreater(longer, 20)

    def test_processed_logprobs_add_up_to_one(self):
        choice = self.api.complete(logprobs=20, top_k=2, temperature=1, logprobs_mode="processed_logprobs").json["choices"][0]
        for top in choice["logprobs"]["top_logprobs"]:
            self.assertAlmostEqual(sum(math.exp(value) for value in top.values()), 1, places=4)

    def test_chats_responses_and_messages_take_them_too(self):
        messages = [{"role": "user", "content": "Tell me of the king."}]
        ask = {"temperature": 0, "repetition_penalty": 3.0, "no_repeat_ngram_size": 2}
        text = self.api.chat(messages=messages, **ask).json["choices"][0]["message"]["content"]
        self.assertNotEqual(text, self.api.chat(messages=messages).json["choices"][0]["message"]["content"])
        response = self.api.call("POST", "/v1/responses", {"input": messages, "max_output_tokens": 12, **ask}).json
        self.assertEqual(response["output"][0]["content"][0]["text"], text)
        message = self.api.call("POST", "/v1/messages", {"messages": messages, "max_tokens": 12, **ask}).json
        self.assertEqual(message["content"][0]["text"], text)

    def test_what_is_wrong_is_named(self):
        for name, value, code in (
                ("min_p", 2, None), ("presence_penalty", 9, None), ("repetition_penalty", 0, None), ("xtc_threshold", 0.9, None),
                ("typical_p", "x", "invalid_type"), ("logit_bias", {"1": 200}, None), ("logit_bias", {"a": 1}, "invalid_value"),
                ("logit_bias", {"1": None}, "invalid_value"), ("banned_token_ids", [-1], None), ("min_tokens", 99, None),
                ("bad_words", [""], "invalid_value"), ("bad_words_ids", [[]], None), ("logprobs_mode", "x", "invalid_value")):
            with self.subTest(name=name, value=value):
                answer = self.api.complete(**{name: value})
                self.assertEqual((answer.status, answer.error["param"], answer.error["code"]), (400, name, code), answer.text)
        self.assertEqual(self.api.complete(bad_words_ids=[[1], [2.5]]).error["param"], "bad_words_ids[1][0]")


if __name__ == "__main__":
    main()
