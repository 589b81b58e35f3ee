"""OpenAI's chats over a live pipeline, and texts that keep a constraint by each of its names.

Usage: openai_chat_test.py BIN_DIR [unittest arguments]
"""

import json

from openai import ApiTest, main, text_of


class ChatTest(ApiTest):
    FLAGS = ("--draft_policy", "always")

    def test_answers(self):
        answer = self.api.chat().json
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["choices"][0]["message"]["role"], "assistant")
        prompt = self.api.ids_of("user: Tell me of the king.\nassistant:", "--no_special")
        expected = self.api.complete(prompt=prompt).json["choices"][0]["text"]
        self.assertEqual(answer["choices"][0]["message"]["content"], expected)

    def test_streams(self):
        expected = self.api.chat().json["choices"][0]["message"]["content"]
        answer = self.api.chat(stream=True)
        self.assertEqual(answer.events[0]["choices"][0]["delta"]["role"], "assistant")
        self.assertEqual(text_of(answer), expected)
        self.assertEqual(answer.events[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual({e["object"] for e in answer.events[:-1]}, {"chat.completion.chunk"})

    def test_token_ids_of_answers(self):
        prompt = self.api.ids_of("user: Tell me of the king.\nassistant:", "--no_special")
        answer = self.api.chat(return_token_ids=True).json
        self.assertEqual(answer["prompt_token_ids"], prompt)
        ids = answer["choices"][0]["token_ids"]
        self.assertEqual(len(ids), answer["usage"]["completion_tokens"])
        events = self.api.chat(return_token_ids=True, stream=True).events[:-1]  # [DONE]
        self.assertEqual([event["prompt_token_ids"] for event in events if "prompt_token_ids" in event], [prompt])
        choices = [choice for event in events for choice in event["choices"]]
        self.assertNotIn("token_ids", choices[0])  # it has the role alone
        self.assertEqual([id for choice in choices for id in choice.get("token_ids", [])], ids)
        self.assertNotIn("token_ids", self.api.chat().json["choices"][0])

    def test_messages_of_every_kind(self):
        messages = [
            {"role": "developer", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": "there"}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "done"}]
        answer = self.api.chat(messages=messages)
        text = "system: Be kind.\nuser: Hello\nthere\nassistant: \ntool: done\nassistant:"
        expected = self.api.complete(prompt=self.api.ids_of(text, "--no_special"))
        self.assertEqual(answer.json["choices"][0]["message"]["content"], expected.json["choices"][0]["text"])

    def test_the_assistants_turn_need_not_begin(self):
        prompt = self.api.ids_of("user: Tell me of the king.\n", "--no_special")
        expected = self.api.complete(prompt=prompt).json["choices"][0]["text"]
        answer = self.api.chat(add_generation_prompt=False, continue_final_message=False).json
        self.assertEqual(answer["choices"][0]["message"]["content"], expected)

    def test_logprobs_are_those_of_the_text(self):
        """The token that ends it is counted, but has no text and no entry."""
        whole = self.api.chat(max_tokens=20, logprobs=True).json["choices"][0]["logprobs"]["content"]
        words = [token["token"] for token in whole]
        ids = self.api.call("POST", "/tokenize", {"prompt": words[9], "add_special_tokens": False}).json["tokens"]
        ended = self.api.chat(max_tokens=20, logprobs=True, stop_token_ids=ids[-1:]).json
        choice = ended["choices"][0]
        self.assertEqual(choice["finish_reason"], "stop")
        entries = choice["logprobs"]["content"]
        self.assertEqual("".join(token["token"] for token in entries), choice["message"]["content"])
        self.assertEqual(len(entries), ended["usage"]["completion_tokens"] - 1)

    def test_logprobs(self):
        choice = self.api.chat(logprobs=True, top_logprobs=2).json["choices"][0]
        content = choice["logprobs"]["content"]
        self.assertEqual(bytes(b for t in content for b in t["bytes"]).decode(), choice["message"]["content"])
        self.assertTrue(all(len(t["top_logprobs"]) == 2 for t in content))

    def test_max_completion_tokens(self):
        self.assertEqual(self.api.chat(max_tokens=None, max_completion_tokens=3).json["usage"]["completion_tokens"], 3)

    def test_a_prediction_changes_no_text(self):
        expected = self.api.chat(max_tokens=60).json["choices"][0]["message"]["content"]
        half = len(expected) // 2
        for content in (expected, expected[:half] + " and then " + expected[half:], "x" * 4000,
                        [{"type": "text", "text": expected[:half]}, {"type": "text", "text": expected[half:]}]):
            answer = self.api.chat(max_tokens=60, prediction={"type": "content", "content": content}).json
            self.assertEqual(answer["choices"][0]["message"]["content"], expected)

    def test_a_prediction_is_drafted(self):
        expected = self.api.chat(max_tokens=60, decline_drafts=True).json["choices"][0]["message"]["content"]
        usage = self.api.chat(max_tokens=60, prediction={"type": "content", "content": expected}).json["usage"]
        self.assertGreater(usage["completion_tokens_details"]["accepted_prediction_tokens"], 30)


class ConstraintTest(ApiTest):
    """Texts that keep what was asked for, by each of its names."""

    SCHEMA = {"type": "object", "properties": {"zebra": {"type": "boolean"}, "apple": {"enum": ["red", "green"]}},
              "required": ["zebra", "apple"], "additionalProperties": False}

    def check(self, text):
        value = json.loads(text)
        self.assertEqual(list(value), ["zebra", "apple"], "in the schema's order")
        self.assertIsInstance(value["zebra"], bool)
        self.assertIn(value["apple"], ("red", "green"))

    def text(self, **fields):
        answer = self.api.complete(max_tokens=200, seed=4, temperature=0.9, **fields)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.json["choices"][0]["finish_reason"], "stop")
        return answer.json["choices"][0]["text"]

    def test_a_schema(self):
        named = {"type": "json_schema", "json_schema": {"name": "fruit", "strict": True, "schema": self.SCHEMA}}
        answer = self.api.chat(response_format=named, max_tokens=200)
        self.assertEqual(answer.status, 200, answer.text)
        self.check(answer.json["choices"][0]["message"]["content"])
        self.check(self.text(guided_json=self.SCHEMA))
        self.check(self.text(guided_json=json.dumps(self.SCHEMA)))
        self.check(self.text(structured_outputs={"json": self.SCHEMA}))
        answer = self.api.call("POST", "/v1/responses", {
            "input": "hi", "max_output_tokens": 200,
            "text": {"format": {"type": "json_schema", "name": "fruit", "schema": self.SCHEMA}}})
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.json["text"]["format"]["name"], "fruit")
        self.check(answer.json["output"][0]["content"][0]["text"])

    def test_an_object_of_any_kind(self):
        answer = self.api.chat(response_format={"type": "json_object"}, max_tokens=300, seed=1)
        text = answer.json["choices"][0]["message"]["content"]
        self.assertTrue(text.startswith("{"), text)
        self.assertTrue(self.text(structured_outputs={"json_object": False, "choice": ["x"]}) == "x")

    def test_what_cannot_be_kept_is_the_requests_fault(self):
        answer = self.api.complete(guided_regex="(?<=a)b")
        self.assertEqual((answer.status, answer.error["type"]), (400, "invalid_request_error"), answer.text)

    def test_patterns_choices_and_grammars(self):
        self.assertRegex(self.text(guided_regex="[ab]{3}-[0-9]{2}"), "^[ab]{3}-[0-9]{2}$")
        self.assertIn(self.text(guided_choice=["left", "right"]), ("left", "right"))
        self.assertRegex(self.text(guided_grammar='root ::= ("ha" | "ho")+ "!"'), "^(ha|ho)+!$")
        self.assertRegex(self.text(structured_outputs={"regex": "yes|no"}), "^(yes|no)$")


if __name__ == "__main__":
    main()
