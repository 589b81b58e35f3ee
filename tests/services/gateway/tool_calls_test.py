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

    text, call, begins = "", '<tool_call>{"name": "probe"}</tool_call>', ""

    def GetModel(self, request, context):
        return pb.GetModelResponse(name="scripted", has_tokenizer=True, has_chat_template=True, max_positions=512)

    def ApplyChatTemplate(self, request, context):
        asks_for_calls = any(message.role == "assistant" for message in request.messages)
        return tokenizer_pb2.ApplyChatTemplateResponse(text=self.call if asks_for_calls else f"user: x\nassistant:{self.begins}")

    def Generate(self, request, context):
        for at in range(0, len(self.text), 3):
            yield pb.GenerateResponse(chunk=pb.Chunk(text=self.text[at:at + 3], token_ids=[at]))
        end = pb.FinishedSequence(reason=pb.FINISH_REASON_STOP_TOKEN)
        yield pb.GenerateResponse(finished=pb.Finished(sequences=[end]))


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
        made = [each for choice in choices for each in choice["delta"].get("tool_calls", [])]
        self.assertEqual(text, "I look.\n")
        self.assertEqual([each["index"] for each in made], [0, 1])
        self.assertEqual({each["function"]["name"] for each in made}, {"weather"})
        self.assertEqual(choices[-1]["finish_reason"], "tool_calls")
        one = [event["choices"][0] for event in self.chat(stream=True, parallel_tool_calls=False).events[:-1]]
        self.assertEqual(sum(len(choice["delta"].get("tool_calls", [])) for choice in one), 1)

    def test_without_tools_the_text_is_the_text(self):
        self.serve(CALL)
        choice = self.chat(tools=None).json["choices"][0]
        self.assertEqual((choice["finish_reason"], choice["message"]["content"]), ("stop", CALL))
        self.assertNotIn("tool_calls", choice["message"])

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
