"""OpenAI's models and completions over a live pipeline.

Usage: openai_completions_test.py BIN_DIR [unittest arguments]
"""

import json
import math
import threading

from openai import PROMPT, ApiTest, main, text_of


class ModelsTest(ApiTest):
    def test_up_says_where_it_serves(self):
        self.assertRegex(self.api.served.lines[0], r"^ready 127\.0\.0\.1:\d+$")
        self.assertRegex(self.api.served.lines[1], r"^http 127\.0\.0\.1:\d+$")
        self.assertEqual(self.api.call("GET", "/health").json, {"status": "ok"})

    def test_models(self):
        listed = self.api.call("GET", "/v1/models").json
        self.assertEqual([m["id"] for m in listed["data"]], ["storyteller"])
        self.assertEqual(self.api.call("GET", "/v1/models/storyteller").json, listed["data"][0])
        missing = self.api.call("GET", "/v1/models/gpt-9")
        self.assertEqual((missing.status, missing.error["code"]), (404, "model_not_found"))


class CompletionsTest(ApiTest):
    def test_text_is_what_grpc_gives(self):
        expected = self.api.sluice("generate", "--prompt", PROMPT, "--max_tokens", "12", "--temperature", "0")
        answer = self.api.complete().json
        self.assertEqual(answer["choices"][0]["text"], expected.removesuffix("\n"))
        self.assertEqual(answer["object"], "text_completion")
        self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        self.assertEqual(answer["usage"]["completion_tokens"], 12)
        self.assertEqual(answer["usage"]["total_tokens"], answer["usage"]["prompt_tokens"] + 12)

    def test_a_stream_has_the_same_text(self):
        expected = self.api.complete().json
        answer = self.api.complete(stream=True, stream_options={"include_usage": True})
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
        answer = self.api.complete(prompt=[PROMPT, "The wolf"], n=2, temperature=1, seed=3).json
        self.assertEqual([choice["index"] for choice in answer["choices"]], [0, 1, 2, 3])
        alone = self.api.complete(prompt="The wolf", n=2, temperature=1, seed=3).json
        self.assertEqual([c["text"] for c in answer["choices"][2:]], [c["text"] for c in alone["choices"]])
        self.assertNotEqual(alone["choices"][0]["text"], alone["choices"][1]["text"])
        streamed = self.api.complete(prompt=[PROMPT, "The wolf"], n=2, temperature=1, seed=3, stream=True)
        self.assertEqual([text_of(streamed, i) for i in range(4)], [c["text"] for c in answer["choices"]])

    def test_stop_strings_wait_for_min_tokens(self):
        whole = self.api.complete(max_tokens=30).json["choices"][0]["text"]
        stop = whole[8:11]
        cut = self.api.complete(max_tokens=30, stop=stop).json
        self.assertNotIn(stop, cut["choices"][0]["text"])
        longer = self.api.complete(max_tokens=30, stop=stop, min_tokens=cut["usage"]["completion_tokens"]).json
        self.assertTrue(longer["choices"][0]["text"].startswith(whole[:11]), longer)

    def test_a_seed_of_minus_one_is_drawn(self):
        texts = {self.api.complete(temperature=1.5, seed=-1).json["choices"][0]["text"] for _ in range(4)}
        self.assertGreater(len(texts), 1)
        self.assertEqual(self.api.complete(temperature=1.5, seed=5, top_p=0).json["choices"][0]["text"],
                         self.api.complete().json["choices"][0]["text"])

    def test_offsets_of_an_echo_are_those_of_its_text(self):
        choice = self.api.complete(echo=True, logprobs=0).json["choices"][0]
        text, logprobs = choice["text"], choice["logprobs"]
        self.assertTrue(text.startswith(PROMPT))
        for token, offset in zip(logprobs["tokens"], logprobs["text_offset"]):
            if token.strip() and not token.startswith("<"):
                self.assertTrue(text[offset:].startswith(token.lstrip(" ") if offset == 0 else token), (token, offset))

    def test_special_tokens_are_added_unless_told_otherwise(self):
        ask = {"prompt": PROMPT, "add_special_tokens": False}
        ids = self.api.call("POST", "/tokenize", ask).json["tokens"]
        expected = self.api.complete(prompt=ids).json
        bare = self.api.complete(**ask).json
        self.assertEqual((bare["choices"][0]["text"], bare["usage"]["prompt_tokens"]),
                         (expected["choices"][0]["text"], len(ids)))

    def test_token_ids_are_a_prompt(self):
        ids = self.api.ids_of(PROMPT)
        self.assertEqual(self.api.complete(prompt=ids).json["choices"][0]["text"], self.api.complete().json["choices"][0]["text"])
        both = self.api.complete(prompt=[ids, ids[:4]]).json["choices"]
        self.assertEqual(both[1]["text"], self.api.complete(prompt=ids[:4]).json["choices"][0]["text"])
        cut = self.api.complete(truncate_prompt_tokens=4).json
        self.assertEqual(cut["choices"][0]["text"], self.api.complete(prompt=ids[-4:]).json["choices"][0]["text"])
        self.assertEqual(cut["usage"]["prompt_tokens"], 4)

    def test_stopping(self):
        text = self.api.complete(max_tokens=40).json["choices"][0]["text"]
        stop = text[20:24]
        ended = self.api.complete(max_tokens=40, stop=stop).json["choices"][0]
        self.assertEqual(ended["text"], text[:text.index(stop)])
        self.assertEqual((ended["finish_reason"], ended["stop_reason"]), ("stop", stop))
        kept = self.api.complete(max_tokens=40, stop=["zzz", stop], include_stop_str_in_output=True).json["choices"][0]
        self.assertEqual(kept["text"], text[:text.index(stop) + len(stop)])
        token = self.api.ids_of(text)[4]
        by_token = self.api.complete(max_tokens=40, stop_token_ids=[token]).json["choices"][0]
        self.assertEqual((by_token["finish_reason"], by_token["stop_reason"]), ("stop", token))

    def test_logprobs(self):
        plain = self.api.complete(logprobs=3).json["choices"][0]
        logprobs = plain["logprobs"]
        self.assertEqual("".join(logprobs["tokens"]), plain["text"])
        self.assertEqual(len(logprobs["token_logprobs"]), 12)
        for token, value, top, offset in zip(*(logprobs[k] for k in (
                "tokens", "token_logprobs", "top_logprobs", "text_offset"))):
            self.assertAlmostEqual(max(top.values()), value, places=5)
            self.assertEqual(plain["text"][offset:offset + len(token)], token)
        streamed = self.api.complete(logprobs=3, stream=True)
        tokens = [t for e in streamed.events[:-1] for c in e["choices"] if c["logprobs"] for t in c["logprobs"]["tokens"]]
        self.assertEqual(tokens, logprobs["tokens"])

    def test_echo(self):
        generated = self.api.complete().json["choices"][0]["text"]
        self.assertEqual(self.api.complete(echo=True).json["choices"][0]["text"], PROMPT + generated)
        self.assertEqual(text_of(self.api.complete(echo=True, stream=True)), PROMPT + generated)
        score = json.loads(self.api.sluice("score", "--text", PROMPT, "--json"))
        scored = self.api.complete(echo=True, max_tokens=0, logprobs=1).json
        self.assertEqual(scored["choices"][0]["text"], PROMPT)
        self.assertEqual(scored["usage"]["completion_tokens"], 0)
        ours = scored["choices"][0]["logprobs"]["token_logprobs"]
        self.assertIsNone(ours[0])
        for a, b in zip(ours[1:], score["logprobs"][1:]):
            self.assertTrue(math.isclose(a, b, abs_tol=1e-5))
        whole = self.api.complete(echo=True, logprobs=1).json["choices"][0]
        # The token that the tokenizer puts before a text has a text of its own.
        self.assertEqual("".join(whole["logprobs"]["tokens"][1:]), whole["text"])

    def test_beams_are_those_of_the_command(self):
        lines = self.api.sluice("generate", "--prompt", PROMPT, "--beam_width", "4", "--num_return", "2", "--length_penalty", "0.5",
                       "--early_stopping", "never", "--max_tokens", "12", "--json").splitlines()
        events = [json.loads(line) for line in lines]
        texts = ["".join(e["text"] for e in events[:-1] if e["sequence"] == i) for i in range(2)]
        asked = {"use_beam_search": True, "n": 2, "best_of": 4, "length_penalty": 0.5, "early_stopping": "never"}
        choices = self.api.complete(**asked).json["choices"]
        self.assertEqual([choice["text"] for choice in choices], texts)
        self.assertEqual([choice["score"] for choice in choices], events[-1]["scores"])
        streamed = self.api.complete(**asked, stream=True)
        self.assertEqual([text_of(streamed, i) for i in range(2)], texts)
        drawn = self.api.complete(beam_width=3, n=3, stochastic_beams=True, temperature=1, seed=5).json["choices"]
        self.assertEqual(len({choice["text"] for choice in drawn}), 3)

    def test_best_of(self):
        asked = {"temperature": 1, "seed": 8, "logprobs": 0}
        drawn = self.api.complete(n=4, **asked).json["choices"]
        best = self.api.complete(n=1, best_of=4, **asked).json
        by_mean = max(drawn, key=lambda choice: sum(choice["logprobs"]["token_logprobs"]))
        self.assertEqual(best["choices"][0]["text"], by_mean["text"])
        self.assertEqual(best["usage"]["completion_tokens"], 48)

    def test_prompt_logprobs(self):
        score = json.loads(self.api.sluice("score", "--text", PROMPT, "--json"))
        prompt = self.api.complete(prompt_logprobs=2).json["choices"][0]["prompt_logprobs"]
        self.assertEqual((len(prompt), prompt[0]), (len(score["token_ids"]), None))
        for id, logprob, tokens in zip(score["token_ids"][1:], score["logprobs"][1:], prompt[1:]):
            self.assertAlmostEqual(tokens[str(id)]["logprob"], logprob, places=5)
            self.assertIn(len(tokens), (2, 3))
        self.assertIsNone(self.api.chat(prompt_logprobs=0).json["prompt_logprobs"][0])

    def test_token_ids_of_answers(self):
        plain = self.api.complete(n=2, seed=3).json
        answer = self.api.complete(n=2, seed=3, return_token_ids=True).json
        for choice, other in zip(answer["choices"], plain["choices"]):
            self.assertEqual(choice["text"], other["text"])
            self.assertNotIn("token_ids", other)
            self.assertEqual(choice["prompt_token_ids"], self.api.ids_of(PROMPT))
        self.assertEqual(sum(len(choice["token_ids"]) for choice in answer["choices"]), answer["usage"]["completion_tokens"])
        events = self.api.complete(n=2, seed=3, return_token_ids=True, stream=True).events[:-1]  # [DONE]
        streamed = {0: [], 1: []}
        prompts = []
        for event in events:
            for choice in event["choices"]:
                streamed[choice["index"]] += choice["token_ids"]
                prompts += [choice["prompt_token_ids"]] if "prompt_token_ids" in choice else []
        self.assertEqual(streamed, {choice["index"]: choice["token_ids"] for choice in answer["choices"]})
        self.assertEqual(prompts, [self.api.ids_of(PROMPT)] * 2)

    def test_service_tier_and_priority(self):
        self.assertEqual(self.api.complete(service_tier="flex").json["service_tier"], "flex")
        self.assertEqual(self.api.complete(priority=3).status, 200)
        refused = self.api.complete(priority=-9)  # larger than any that the operator grants
        self.assertEqual(refused.status, 400)
        self.assertIn("priority is -9", refused.json["error"]["message"])


class SurvivalTest(ApiTest):
    def streams_through(self, program):
        expected = self.api.complete(max_tokens=300, ignore_eos=True, temperature=1, seed=5).json["choices"][0]["text"]
        result = []
        thread = threading.Thread(target=lambda: result.append(
            self.api.complete(max_tokens=300, ignore_eos=True, temperature=1, seed=5, stream=True)))
        thread.start()
        while self.api.served.status()["num_running_sequences"] == 0 and thread.is_alive():
            pass
        self.api.served.kill(program)
        thread.join()
        self.assertEqual(text_of(result[0]), expected)

    def test_a_stream_survives_the_death_of_a_stage(self):
        self.streams_through("sluice-shard")

    def test_a_stream_survives_the_death_of_the_orchestrator(self):
        self.streams_through("sluice-orchestrator")


if __name__ == "__main__":
    main()
