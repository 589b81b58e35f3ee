// The client of Anthropic's own, as it is.
import assert from "node:assert/strict";
import {test} from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import {address, messages, untilIdle} from "./shared.js";

const client = new Anthropic({baseURL: `http://${address}`, apiKey: "unused", maxRetries: 0});
const ask = {model: "storyteller", max_tokens: 16, temperature: 0, messages};

test("a message", async () => {
  const message = await client.messages.create({...ask, system: "Be brief."});
  assert.equal(message.content[0].type, "text");
  assert.equal(message.stop_reason, "max_tokens");
  assert.equal(message.usage.output_tokens, 16);
});

test("streamed, it has the same text", async () => {
  const whole = await client.messages.create(ask);
  const stream = client.messages.stream(ask);
  let text = "";
  stream.on("text", (piece) => { text += piece; });
  const final = await stream.finalMessage();
  assert.equal(text, whole.content[0].text);
  assert.equal(final.content[0].text, text);
  assert.equal(final.usage.output_tokens, 16);
  const prompt = (usage) => usage.input_tokens + usage.cache_read_input_tokens;
  assert.equal(prompt(final.usage), prompt(whole.usage));
});

test("tokens are counted", async () => {
  const message = await client.messages.create(ask);
  const {model, system} = {model: ask.model};
  const count = await client.messages.countTokens({model, messages, system});
  assert.equal(count.input_tokens, message.usage.input_tokens + message.usage.cache_read_input_tokens);
});

test("stop sequences, tools and their results", async () => {
  const whole = await client.messages.create({...ask, max_tokens: 40});
  const stop = whole.content[0].text.slice(10, 14);
  const ended = await client.messages.create({...ask, max_tokens: 40, stop_sequences: [stop]});
  assert.deepEqual([ended.stop_reason, ended.stop_sequence], ["stop_sequence", stop]);
  const tools = [{name: "weather", input_schema: {type: "object"}}];
  const answered = await client.messages.create({...ask, tools, messages: [
    ...messages,
    {role: "assistant", content: [{type: "tool_use", id: "t1", name: "weather", input: {}}]},
    {role: "user", content: [{type: "tool_result", tool_use_id: "t1", content: "Rain."}]}]});
  assert.equal(answered.role, "assistant");
});

test("errors are the client's own", async () => {
  await assert.rejects(client.messages.create({...ask, model: "claude-9"}), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({...ask, temperature: -1}), Anthropic.BadRequestError);
  await assert.rejects(client.messages.create({...ask, nonsense: 1}), /nonsense/);
});

test("a stream can be left", async () => {
  const stream = client.messages.stream({...ask, max_tokens: 400});
  for await (const event of stream) if (event.type === "content_block_delta") break;
  stream.abort();
  await untilIdle();
});

test("a turn that was begun goes on, in a stream too", async () => {
  const begun = [...messages, {role: "assistant", content: "The king was"}];
  const whole = await client.messages.create({...ask, messages: begun});
  const final = await client.messages.stream({...ask, messages: begun}).finalMessage();
  assert.equal(final.content[0].text, whole.content[0].text);
  const other = await client.messages.create(ask);
  assert.notEqual(whole.content[0].text, other.content[0].text);
});

test("what agents send is taken", async () => {
  const answer = await client.beta.messages.create({
    ...ask, thinking: {type: "adaptive"}, betas: ["context-management-2025-06-27"],
    context_management: {edits: [{type: "clear_thinking_20251015", keep: "all"}]},
    output_config: {effort: "high"},
    tools: [{name: "weather", input_schema: {type: "object"}, eager_input_streaming: true, defer_loading: true}],
    messages: [...messages,
      {role: "assistant", content: [{type: "thinking", thinking: "hm", signature: "s"},
        {type: "redacted_thinking", data: "AA"}, {type: "tool_use", id: "t1", name: "weather", input: {}}]},
      {role: "user", content: [{type: "tool_result", tool_use_id: "t1", content: [{type: "image",
        source: {type: "base64", media_type: "image/png", data: "AA=="}}]}]}]});
  assert.equal(answer.role, "assistant");
  const long = [{role: "user", content: "Once upon a time. ".repeat(1000)}];
  await assert.rejects(client.messages.create({...ask, messages: long}), /prompt is too long: \d+ tokens > \d+ maximum/);
  const search = [{type: "web_search_20250305", name: "web_search"}];
  await assert.rejects(client.messages.create({...ask, tools: search}), /web_search_20250305/);
});
