"""Calls of tools and thoughts over HTTP. No model at hand writes any, so the server behind the gateway is one that is
told what to write.

Usage: tool_calls_test.py BIN_DIR [unittest arguments]
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from concurrent import futures

import grpc

from served import call

BIN = sys.argv[1]
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
generated = tempfile.TemporaryDirectory()
subprocess.run([sys.executable, os.path.join(ROOT, "clients", "python", "generate.py"), generated.name], check=True)
sys.path.insert(0, generated.name)

from sluice.v1 import generation_pb2 as pb  # noqa: E402
from sluice.v1 import generation_pb2_grpc as rpc  # noqa: E402
from sluice.v1 import tokenizer_pb2  # noqa: E402

TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Bonn"}}\n</tool_call>'


class Scripted(rpc.GenerationServiceServicer):
    """Writes `text` in pieces of three letters; its template writes calls and thoughts as it is told."""

    asked = None  # the last request
    text, call, begins = "", '<tool_call>{"name": "probe"}</tool_call>', ""

    def GetModel(self, request, context):
        return pb.GetModelResponse(name="scripted", has_tokenizer=True, has_chat_template=True, max_positions=512)

    def ApplyChatTemplate(self, request, context):
        asks_for_calls = any(message.role == "assistant" for message in request.messages)
        return tokenizer_pb2.ApplyChatTemplateResponse(text=self.call if asks_for_calls else f"user: x\nassistant:{self.begins}")

    def Generate(self, request, context):
        Scripted.asked = request
        for at in range(0, len(self.text), 3):
            yield pb.GenerateResponse(chunk=pb.Chunk(text=self.text[at:at + 3], token_ids=[at]))
        end = pb.FinishedSequence(reason=pb.FINISH_REASON_STOP_TOKEN)
        yield pb.GenerateResponse(finished=pb.Finished(sequences=[end]))


def calls_of(choices):
    """[name, arguments] of each call that the chunks of a stream add up to."""
    calls = []
    for delta in (each for choice in choices for each in choice["delta"].get("tool_calls", [])):
        if "id" in delta:
            calls.append([delta["function"]["name"], ""])
        assert delta["index"] == len(calls) - 1, delta
        calls[-1][1] += delta["function"]["arguments"]
    return calls


class ToolCallsTest(unittest.TestCase):
    def serve(self, text, *flags, **template):
        server = grpc.server(futures.ThreadPoolExecutor(4))
        servicer = Scripted()
        servicer.text = text
        vars(servicer).update(template)
        rpc.add_GenerationServiceServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        gateway = subprocess.Popen([os.path.join(BIN, "sluice-gateway"), "--orchestrator", f"127.0.0.1:{port}", "--listen",
                                    "127.0.0.1:0", *flags], stderr=subprocess.PIPE, text=True)
        self.addCleanup(gateway.stderr.close)
        self.addCleanup(gateway.wait)
        self.addCleanup(gateway.terminate)
        self.address = re.search(r"address=(\S+)", gateway.stderr.readline()).group(1)

    def chat(self, **fields):
        body = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **fields}
        answer = call(self.address, "POST", "/v1/chat/completions", body)
        self.assertEqual(answer.status, 200, answer.text)
        return answer

    def test_a_call_is_found(self):
        self.serve("I look.\n" + CALL)
        choice = self.chat().json["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("tool_calls", "I look.\n"))
        made = choice["message"]["tool_calls"][0]
        self.assertEqual((made["type"], made["function"]["name"]), ("function", "weather"))
        self.assertEqual(json.loads(made["function"]["arguments"]), {"city": "Bonn"})
        self.assertTrue(made["id"].startswith("call_"))

    def test_streamed_it_is_the_same(self):
        self.serve("I look.\n" + CALL + CALL)
        choices = [event["choices"][0] for event in self.chat(stream=True).events[:-1]]
        text = "".join(choice["delta"].get("content") or "" for choice in choices)
        self.assertEqual(text, "I look.\n")
        self.assertEqual([name for name, _ in calls_of(choices)], ["weather", "weather"])
        self.assertEqual([json.loads(arguments) for _, arguments in calls_of(choices)], [{"city": "Bonn"}] * 2)
        self.assertEqual(choices[-1]["finish_reason"], "tool_calls")
        one = [event["choices"][0] for event in self.chat(stream=True, parallel_tool_calls=False).events[:-1]]
        self.assertEqual(len(calls_of(one)), 1)
        self.assertEqual(len(self.chat(parallel_tool_calls=False).json["choices"][0]["message"]["tool_calls"]), 1)

    def test_arguments_come_letter_by_letter(self):
        self.serve('<tool_call>{"name": "weather", "arguments": {"city": "' + "x" * 300 + '"}}</tool_call>')
        choices = [event["choices"][0] for event in self.chat(stream=True).events[:-1]]
        deltas = [each for choice in choices for each in choice["delta"].get("tool_calls", [])]
        self.assertGreater(len(deltas), 100)  # the server writes three letters at a time
        self.assertLess(max(len(each["function"]["arguments"]) for each in deltas), 7)
        self.assertEqual(json.loads(calls_of(choices)[0][1]), {"city": "x" * 300})

    def test_a_choice_is_a_constraint(self):
        schema = {"type": "object", "properties": {"z": {}, "a": {}}}
        tools = [{"type": "function", "function": {"name": name, "parameters": schema, "strict": True}} for name in "fg"]
        self.serve('{"z": 1}')
        for choice in ({"type": "function", "function": {"name": "g"}},
                       {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [tools[1]]}}):
            made = self.chat(tools=tools, tool_choice=choice).json["choices"][0]
            self.assertEqual(made["finish_reason"], "tool_calls")
            self.assertEqual(made["message"]["tool_calls"][0]["function"], {"name": "g", "arguments": '{"z": 1}'})
            self.assertEqual(Scripted.asked.constraint.json_schema, json.dumps(schema))
            self.assertNotIn('"f"', Scripted.asked.chat.tools_json)
        self.chat(tools=tools)
        tags = Scripted.asked.constraint.structural_tags
        self.assertEqual([tag.begin for tag in tags.tags], [f'<tool_call>\n{{"name": "{name}", "arguments": ' for name in "fg"])
        self.chat()
        self.assertFalse(Scripted.asked.HasField("constraint"))

    def test_a_required_call_of_several(self):
        self.serve('[{"name": "weather", "arguments": {"city": "Bonn"}}, {"name": "time", "arguments": {}}]')
        tools = TOOLS + [{"type": "function", "function": {"name": "time"}}]
        choices = [event["choices"][0] for event in self.chat(tools=tools, tool_choice="required", stream=True).events[:-1]]
        self.assertEqual(calls_of(choices), [["weather", '{"city": "Bonn"}'], ["time", "{}"]])
        self.assertEqual(json.loads(Scripted.asked.constraint.json_schema)["minItems"], 1)

    def test_what_cannot_be_chosen_is_named(self):
        self.serve(CALL, "--tool_parser", "mistral")
        strict = [{"type": "function", "function": {"name": "f", "strict": True}}]
        for fields, param in (({"tool_choice": "any"}, "tool_choice"), ({"tool_choice": "required", "tools": []}, "tool_choice"),
                              ({"tool_choice": {"type": "function", "function": {"name": "g"}}}, "tool_choice"),
                              ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}}, "tool_choice"),
                              ({"tools": strict}, "tools"), ({"tools": [{"type": "custom"}]}, "tools[0].type"),
                              ({"tools": [{"type": "function"}]}, "tools[0].function"),
                              ({"tools": [{"type": "function", "function": {}}]}, "tools[0].function.name"),
                              ({"tools": [{"type": "function", "function": {"name": "f", "x": 1}}]}, "tools[0].function.x")):
            body = {"messages": [{"role": "user", "content": "x"}], "tools": TOOLS, **fields}
            answer = call(self.address, "POST", "/v1/chat/completions", body)
            self.assertEqual((answer.status, answer.error["param"]), (400, param), answer.text)

    def respond(self, **fields):
        tools = [{"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": False}]
        answer = call(self.address, "POST", "/v1/responses", {"input": "x", "tools": tools, **fields})
        self.assertEqual(answer.status, 200, answer.text)
        return answer

    def test_responses_have_items(self):
        self.serve("<think>Hm.</think>I look." + CALL)
        output = self.respond().json["output"]
        self.assertEqual([item["type"] for item in output], ["reasoning", "message", "function_call"])
        self.assertEqual(output[0]["content"], [{"type": "reasoning_text", "text": "Hm."}])
        self.assertEqual(output[1]["content"][0]["text"], "I look.")
        self.assertEqual((output[2]["name"], json.loads(output[2]["arguments"])), ("weather", {"city": "Bonn"}))
        self.assertEqual({item["status"] for item in output}, {"completed"})
        events = self.respond(stream=True).events
        self.assertEqual([event["sequence_number"] for event in events], list(range(len(events))))
        done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
        added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
        self.assertEqual([item["id"] for item in done], added)
        self.assertEqual(done, events[-1]["response"]["output"])
        self.assertEqual([{**item, "id": 0, "call_id": 0} for item in done], [{**item, "id": 0, "call_id": 0} for item in output])
        deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
        self.assertGreater(len(deltas), 3)
        self.assertEqual("".join(deltas), output[2]["arguments"])

    def test_responses_keep_a_choice(self):
        self.serve('{"city": "Bonn"}')
        output = self.respond(tool_choice={"type": "function", "name": "weather"}).json["output"]
        self.assertEqual([(item["type"], item["arguments"]) for item in output], [("function_call", '{"city": "Bonn"}')])

    def test_anthropic_keeps_a_choice(self):
        self.serve('{"city": "Bonn"}')
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 99, "tool_choice": {"type": "any"},
                "tools": [{"name": "weather", "input_schema": {"type": "object"}}]}
        content = call(self.address, "POST", "/v1/messages", body).json["content"]
        self.assertEqual([(block["type"], block["input"]) for block in content], [("tool_use", {"city": "Bonn"})])
        self.assertEqual(Scripted.asked.constraint.json_schema, '{"type": "object"}')
        unknown = call(self.address, "POST", "/v1/messages", {**body, "tool_choice": {"type": "tool", "name": "g"}})
        self.assertEqual(unknown.status, 400)
        self.assertIn("tool_choice", unknown.error["message"])

    def test_without_tools_the_text_is_the_text(self):
        self.serve(CALL)
        choice = self.chat(tools=None).json["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("stop", CALL))
        self.assertNotIn("tool_calls", choice["message"])

    # Of each format: what the template writes of the probe's call, what the model writes, how prompts end.
    FORMATS = {
        "qwen3_xml": ("<tool_call>\n<function=probe>\n<parameter=key>",
                      "<think>Hm.</think>I look.<tool_call>\n<function=weather>\n<parameter=city>\nBonn\n</parameter>\n"
                      "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>", ""),
        "glm": ("<tool_call>probe<arg_key>key</arg_key>",
                "Hm.</think>I look.<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Bonn</arg_value>\n"
                "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>", "<think>"),
        "deepseek": ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>probe<｜tool▁sep｜>{}",
                     "<think>Hm.</think>I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>"
                     '{"city": "Bonn", "days": 3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>', ""),
        "kimi": ("<|tool_calls_section_begin|><|tool_call_begin|>functions.probe:0",
                 "<think>Hm.</think>I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0"
                 '<|tool_call_argument_begin|>{"city": "Bonn", "days": 3}<|tool_call_end|><|tool_calls_section_end|>', ""),
        "granite": ("respond with <|tool_call|> followed by a JSON list",
                    '<think>Hm.</think>I look.<|tool_call|>[{"name": "weather", "arguments": {"city": "Bonn", "days": 3}}]', ""),
        "lfm": ("<|tool_call_start|>[probe(key=1)]",
                '<think>Hm.</think>I look.<|tool_call_start|>[weather(city="Bonn", days=3)]<|tool_call_end|>', ""),
        "cohere": ('<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "probe", "parameters": {}}\n]<|END_ACTION|>',
                   "<|START_THINKING|>Hm.<|END_THINKING|>I look.<|START_ACTION|>[\n"
                   '    {"tool_call_id": "0", "tool_name": "weather", "parameters": {"city": "Bonn", "days": 3}}\n]<|END_ACTION|>',
                   "<|CHATBOT_TOKEN|>"),
        "gemma4": ("<|turn>model\n<|tool_call>call:probe{}<tool_call|>",
                   "<|channel>thought\nHm.<channel|>I look."
                   '<|tool_call>call:weather{city:<|"|>Bonn<|"|>,days:3}<tool_call|>', "<|turn>model\n"),
        "nemotron": ('<TOOLCALL>[{"name": "probe", "arguments": {}}]</TOOLCALL>',
                     'Hm.</think>I look.<TOOLCALL>[{"name": "weather", "arguments": {"city": "Bonn", "days": 3}}]</TOOLCALL>',
                     "<think>\n\n"),
        "olmo3": ("<function_calls>\nprobe(key=1)\n</function_calls>",
                  '<think>Hm.</think>I look.<function_calls>\nweather(city="Bonn", days=3)\n</function_calls>', ""),
        "harmony": ("<|start|>assistant to=functions.probe<|channel|>commentary json<|message|>{}",
                    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>"
                    "<|start|>assistant<|channel|>commentary to=functions.weather <|constrain|>json<|message|>"
                    '{"city": "Bonn", "days": 3}<|call|>', "<|start|>assistant"),
    }
    SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}

    def test_formats_are_found_by_the_template_in_every_api(self):
        expected = {"city": "Bonn", "days": 3}
        for name, (template, text, begins) in self.FORMATS.items():
            with self.subTest(format=name):
                self.serve(text, call=template, begins=begins)
                tools = [{"type": "function", "function": {"name": "weather", "parameters": self.SCHEMA}}]
                message = self.chat(tools=tools).json["choices"][0]["message"]
                self.assertEqual((message["content"], message["reasoning_content"]), ("I look.", "Hm."))
                self.assertEqual(json.loads(message["tool_calls"][0]["function"]["arguments"]), expected)
                choices = [event["choices"][0] for event in self.chat(tools=tools, stream=True).events[:-1]]
                ((called, arguments),) = calls_of(choices)
                self.assertEqual((called, json.loads(arguments)), ("weather", expected))
                self.assertEqual("".join(choice["delta"].get("content") or "" for choice in choices), "I look.")
                output = self.respond(tools=[{"type": "function", "name": "weather", "parameters": self.SCHEMA}]).json["output"]
                self.assertEqual([item["type"] for item in output], ["reasoning", "message", "function_call"])
                self.assertEqual(json.loads(output[2]["arguments"]), expected)
                content = call(self.address, "POST", "/v1/messages", {
                    "messages": [{"role": "user", "content": "x"}], "max_tokens": 99,
                    "tools": [{"name": "weather", "input_schema": self.SCHEMA}]}).json["content"]
                self.assertEqual([block["type"] for block in content], ["thinking", "text", "tool_use"])
                self.assertEqual(content[2]["input"], expected)
                kept = list(Scripted.asked.kept_special_tokens)
                tags = {"harmony": "<|channel|>", "cohere": "<|START_THINKING|>", "gemma4": "<|channel>"}
                self.assertIn(tags.get(name, "<think>"), kept)

    def test_channels_are_apart_without_tools(self):
        self.serve("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
                   call="x", begins="<|start|>assistant")
        message = self.chat(tools=None).json["choices"][0]["message"]
        self.assertEqual((message["content"], message["reasoning_content"]), ("Yes.", "Hm."))

    def test_the_flag_has_the_last_word(self):
        self.serve('[weather(city="Bonn")]', "--tool_parser", "pythonic")
        made = self.chat().json["choices"][0]["message"]
        self.assertIsNone(made["content"])
        self.assertEqual(made["tool_calls"][0]["function"]["arguments"], '{"city":"Bonn"}')
        wrong = subprocess.run([os.path.join(BIN, "sluice-gateway"), "--orchestrator", "x", "--tool_parser", "x"],
                               capture_output=True, text=True)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("hermes", wrong.stderr)

    def test_thoughts_are_apart(self):
        self.serve("<think>It rains.</think>\n\nTake a coat.")
        message = self.chat().json["choices"][0]["message"]
        self.assertEqual((message["reasoning_content"], message["content"]), ("It rains.", "Take a coat."))
        deltas = [event["choices"][0]["delta"] for event in self.chat(stream=True).events[:-1]]
        self.assertEqual("".join(delta.get("reasoning_content", "") for delta in deltas), "It rains.")
        self.assertEqual("".join(delta.get("content") or "" for delta in deltas), "Take a coat.")

    def test_tokens_of_thoughts_are_counted(self):
        self.serve("<think>It rains.</think>\n\nTake a coat.")  # three letters a token
        details = self.chat().json["usage"]["completion_tokens_details"]
        self.assertEqual(details["reasoning_tokens"], 6)  # what comes before the tag is whole is not known yet
        self.assertEqual(self.respond().json["usage"]["output_tokens_details"]["reasoning_tokens"], 6)

    def test_a_turn_that_goes_on_is_in_its_thought_where_that_is_open(self):
        self.serve("It rains.</think>Take a coat.", begins="<think>\n")
        for content, reasoning in (("<think>Hm. ", "It rains."), ("Well, ", None)):
            turns = [{"role": "user", "content": "x"}, {"role": "assistant", "content": content}]
            message = self.chat(messages=turns, continue_final_message=True).json["choices"][0]["message"]
            self.assertEqual(message.get("reasoning_content"), reasoning)
            self.assertTrue(Scripted.asked.chat.continue_final_message)

    def test_what_a_model_wrote_comes_back_as_it_was(self):
        arguments = '{"z": 1.50, "a": 10000000000000000000000}'
        self.serve(f'<tool_call>{{"name": "weather", "arguments": {arguments}}}</tool_call>')
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 99,
                "tools": [{"name": "weather", "input_schema": {"type": "object"}}]}
        answer = call(self.address, "POST", "/v1/messages", body)
        self.assertIn(f'"input":{arguments}', answer.text)
        block = f'{{"type": "tool_use", "id": "a", "name": "weather", "input": {arguments}}}'
        turns = f'{{"role": "user", "content": "x"}}, {{"role": "assistant", "content": [{block}]}}'
        result = '{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": "Rain."}]}'
        sent = f'{{"max_tokens": 9, "messages": [{turns}, {result}]}}'
        self.assertEqual(call(self.address, "POST", "/v1/messages", sent.encode()).status, 200)
        self.assertIn(f'"arguments":{arguments}', Scripted.asked.chat.messages[1].extra_json)

    def test_a_prompt_may_begin_the_thought(self):
        self.serve("It rains.</think>Take a coat.", begins="<think>\n")
        message = self.chat().json["choices"][0]["message"]
        self.assertEqual((message["reasoning_content"], message["content"]), ("It rains.", "Take a coat."))

    def test_anthropics_blocks(self):
        self.serve("<think>Hm.</think>I look." + CALL)
        body = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 99,
                "tools": [{"name": "weather", "input_schema": {"type": "object"}}]}
        message = call(self.address, "POST", "/v1/messages", body).json
        self.assertEqual([block["type"] for block in message["content"]], ["thinking", "text", "tool_use"])
        self.assertEqual(message["content"][2]["input"], {"city": "Bonn"})
        self.assertEqual(message["stop_reason"], "tool_use")
        events = call(self.address, "POST", "/v1/messages", {**body, "stream": True}).events
        starts = [(event["index"], event["content_block"]["type"]) for event in events if event["type"] == "content_block_start"]
        self.assertEqual(starts, [(0, "thinking"), (1, "text"), (2, "tool_use")])
        self.assertEqual([event["index"] for event in events if event["type"] == "content_block_stop"], [0, 1, 2])
        pieces = [event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"]
        self.assertEqual(json.loads("".join(pieces)), {"city": "Bonn"})
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
