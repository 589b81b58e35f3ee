"""What OpenAI's paths refuse, and how they name it.

Usage: openai_errors_test.py BIN_DIR [unittest arguments]
"""

from openai import ApiTest, main


class ErrorsTest(ApiTest):
    def check(self, answer, status, param, code, part=""):
        self.assertEqual((answer.status, answer.error["param"], answer.error["code"]), (status, param, code), answer.text)
        self.assertIn(part, answer.error["message"])
        self.assertIn("x-request-id", answer.headers)

    def test_what_is_wrong_is_named(self):
        check, complete, chat = self.check, self.api.complete, self.api.chat
        check(complete(temperature=-1), 400, "temperature", None, "temperature is -1")
        check(complete(temperature="hot"), 400, "temperature", "invalid_type")
        check(complete(top_p=1.5), 400, "top_p", None)
        check(complete(max_tokens=0), 400, "max_tokens", "invalid_value")
        check(complete(max_tokens=-1), 400, "max_tokens", "integer_below_min_value")
        check(complete(n=99), 400, "n", "integer_above_max_value")
        check(complete(model="gpt-9"), 404, "model", "model_not_found", "gpt-9")
        check(complete(foo=1), 400, "foo", "unknown_parameter", "foo")
        check(complete(suffix="end"), 400, "suffix", "unsupported_parameter")
        check(complete(prompt=[]), 400, "prompt", "invalid_type")
        check(complete(prompt=""), 400, "prompt", None, "empty")
        check(complete(prompt=[1, 999999]), 400, "prompt", None, "999999")
        check(complete(stream_options={}), 400, "stream_options", "invalid_value")
        check(complete(best_of=99), 400, "best_of", "integer_above_max_value")
        check(complete(best_of=1, n=2), 400, "best_of", None, "n, which is 2")
        check(complete(length_penalty=1), 400, "length_penalty", "invalid_value", "use_beam_search")
        check(complete(use_beam_search=True, early_stopping="often"), 400, "early_stopping", "invalid_type")
        check(complete(beam_width=65), 400, "beam_width", None, "1 to 64")
        check(complete(use_beam_search=True, top_p=0.5), 400, "top_p", None, "contradict")
        check(complete(prompt_logprobs=1, stream=True), 400, "prompt_logprobs", "invalid_value", "stream")
        check(complete(service_tier="gold"), 400, "service_tier", "invalid_value")
        check(complete(service_tier="flex", priority=3), 400, "priority", "invalid_value", "contradict")
        check(complete(priority=-9), 400, "priority", None, "priority is -9")
        check(complete(seed=2 ** 64), 400, "seed", "invalid_type", "1.8446744073709552e+19")
        check(complete(n=1.5), 400, "n", "invalid_type", "but got 1.5 instead")
        check(complete(min_tokens=20), 400, "min_tokens", None, "min_tokens is 20")
        self.assertNotIn("sampling.", complete(temperature=-1).error["message"])
        check(complete(max_tokens=100_000), 400, "max_tokens", None, "max_tokens is 100000")
        check(chat(max_tokens=None, max_completion_tokens=100_000), 400, "max_completion_tokens", None,
              "max_completion_tokens is 100000")
        check(complete(decline_drafts=True, max_draft_tokens=3), 400, "decline_drafts", None, "contradict")
        check(complete(max_draft_tokens=33), 400, "max_draft_tokens", "integer_above_max_value")
        check(complete(guided_regex="a", ignore_eos=True), 400, "ignore_eos", None, "contradict")
        check(complete(guided_regex="(a"), 400, "guided_regex", None, "byte 2")
        check(complete(guided_json={"not": {}}), 400, "guided_json", None)
        check(complete(guided_grammar="root ::= x"), 400, "guided_grammar", None, "the rule x")
        check(complete(structured_outputs={"json": "{"}), 400, "structured_outputs", None)
        check(complete(guided_json={}, guided_regex="a"), 400, "guided_regex", "invalid_value", "at most one")
        check(chat(response_format={"type": "json_schema", "json_schema": {"schema": {"unevaluatedItems": False}}}), 400,
              "response_format", None, "#/unevaluatedItems")
        check(chat(max_tokens=4, max_completion_tokens=5), 400, "max_completion_tokens", "invalid_value", "contradict")
        check(chat(messages=[]), 400, "messages", "empty_array")
        check(chat(messages=None), 400, "messages", "missing_required_parameter")
        check(chat(messages=[{"content": "x"}]), 400, "messages[0].role", "missing_required_parameter")
        check(chat(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]), 400,
              "messages[0].content[0].type", "unsupported_value")
        check(chat(top_logprobs=2), 400, "top_logprobs", "invalid_value")
        check(chat(tool_choice="required"), 400, "tool_choice", "invalid_value", "tools")
        check(complete(skip_special_tokens=False), 400, "skip_special_tokens", "unsupported_parameter")
        check(complete(detokenize=False), 400, "detokenize", "unsupported_parameter")
        check(chat(functions=[]), 400, "functions", "unsupported_parameter")
        check(chat(prediction="x"), 400, "prediction", "invalid_type")
        check(chat(prediction={"type": "text", "content": "x"}), 400, "prediction.type", "invalid_value", "content")
        check(chat(prediction={"type": "content"}), 400, "prediction.content", "missing_required_parameter")
        check(chat(prediction={"type": "content", "content": 3}), 400, "prediction.content", "invalid_type")
        check(chat(prediction={"type": "content", "content": "x"}, decline_drafts=True), 400, "prediction", "invalid_value")
        check(chat(prediction={"type": "content", "content": "x"}, use_beam_search=True, n=2), 400, "prediction",
              "invalid_value")
        check(chat(response_format={"type": "xml"}), 400, "response_format.type", "invalid_value", "json_schema")
        check(chat(response_format={"type": "json_schema"}), 400, "response_format.json_schema",
              "missing_required_parameter")
        check(chat(response_format={"type": "json_schema", "json_schema": {"name": "x"}}), 400,
              "response_format.json_schema.schema", "missing_required_parameter")
        check(complete(guided_choice=["a"], guided_regex="a"), 400, "guided_choice", "invalid_value", "at most one")
        check(complete(guided_choice=[""]), 400, "guided_choice", "invalid_type")
        check(complete(guided_json=7), 400, "guided_json", "invalid_type")
        check(complete(guided_regex="("), 400, "guided_regex", None, "regex")
        check(complete(structured_outputs={"structural_tag": {}}), 400, "structured_outputs.structural_tag",
              "unsupported_parameter")

    def test_ids(self):
        answer = self.api.call("GET", "/v1/models", headers={"x-request-id": "mine-1"})
        self.assertEqual(answer.headers["x-request-id"], "mine-1")
        drawn = self.api.call("GET", "/v1/models", headers={"x-request-id": "a b"}).headers["x-request-id"]
        self.assertTrue(drawn.startswith("req_"))

    def test_paths(self):
        missing = self.api.call("GET", "/v1/nothing")
        self.assertEqual((missing.status, missing.error["type"]), (404, "invalid_request_error"))
        wrong = self.api.call("GET", "/v1/completions")
        self.assertEqual((wrong.status, wrong.headers["allow"]), (405, "POST"))


if __name__ == "__main__":
    main()
