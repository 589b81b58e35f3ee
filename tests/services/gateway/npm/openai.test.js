// The client of OpenAI's own, as it is.
import assert from "node:assert/strict";
import {test} from "node:test";
import OpenAI, {toFile} from "openai";
import {baseURL, killAShard, messages, prompt, tool, untilIdle} from "./shared.js";

const client = new OpenAI({baseURL, apiKey: "unused", maxRetries: 0});
const model = "storyteller";
const greedy = {model, temperature: 0, max_tokens: 16};

test("models", async () => {
  const page = await client.models.list();
  assert.deepEqual(page.data.map((m) => m.id), [model]);
  assert.equal((await client.models.retrieve(model)).id, model);
  await assert.rejects(client.models.retrieve("gpt-9"), OpenAI.NotFoundError);
});

test("chat", async () => {
  const answer = await client.chat.completions.create({...greedy, messages});
  assert.equal(answer.choices[0].message.role, "assistant");
  assert.equal(answer.choices[0].finish_reason, "length");
  assert.equal(answer.usage.completion_tokens, 16);
});

test("chat, streamed, has the same text", async () => {
  const whole = await client.chat.completions.create({...greedy, messages});
  const stream = await client.chat.completions.create(
    {...greedy, messages, stream: true, stream_options: {include_usage: true}});
  let text = "", usage = null;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(usage.completion_tokens, 16);
});

test("the stream helper puts an answer together", async () => {
  const runner = client.chat.completions.stream({...greedy, messages});
  const final = await runner.finalChatCompletion();
  assert.ok(final.choices[0].message.content.length > 0);
});

test("chat with log-probabilities, n and seed", async () => {
  const ask = () => client.chat.completions.create(
    {...greedy, messages, temperature: 1, seed: 7, n: 2, logprobs: true, top_logprobs: 3});
  const [one, two] = [await ask(), await ask()];
  assert.deepEqual(one.choices.map((c) => c.message.content), two.choices.map((c) => c.message.content));
  assert.equal(one.choices.length, 2);
  assert.equal(one.choices[0].logprobs.content[0].top_logprobs.length, 3);
});

test("tools may be offered", async () => {
  const answer = await client.chat.completions.create({...greedy, messages, tools: [tool], tool_choice: "auto"});
  assert.equal(answer.choices.length, 1);
  const forced = await client.chat.completions.create(
    {...greedy, max_tokens: 200, messages, tools: [tool], tool_choice: "required"});
  const [call] = forced.choices[0].message.tool_calls;
  assert.equal(call.function.name, tool.function.name);
});

test("completions, with echo, logprobs and several prompts", async () => {
  const plain = await client.completions.create({...greedy, prompt});
  const echoed = await client.completions.create({...greedy, prompt, echo: true, logprobs: 2});
  assert.equal(echoed.choices[0].text, prompt + plain.choices[0].text);
  assert.equal(echoed.choices[0].logprobs.token_logprobs[0], null);
  const several = await client.completions.create({...greedy, prompt: [prompt, "The wolf"], n: 2});
  assert.equal(several.choices.length, 4);
});

test("a stream can be left", async () => {
  const stream = await client.completions.create({...greedy, prompt, max_tokens: 480, stream: true});
  for await (const chunk of stream) {
    assert.ok(chunk.choices);
    break;
  }
  await untilIdle();
});

test("a request can be aborted", async () => {
  const abort = new AbortController();
  const asked = client.completions.create({...greedy, prompt, max_tokens: 480, n: 8}, {signal: abort.signal});
  setTimeout(() => abort.abort(), 50);
  await assert.rejects(asked, OpenAI.APIUserAbortError);
  await untilIdle();
});

test("errors are the client's own", async () => {
  const refused = (fields, type, part) => assert.rejects(
    client.chat.completions.create({...greedy, messages, ...fields}),
    (error) => error instanceof type && part.test(error.message));
  await refused({temperature: -1}, OpenAI.BadRequestError, /temperature/);
  await refused({model: "gpt-9"}, OpenAI.NotFoundError, /gpt-9/);
  await refused({nonsense: 1}, OpenAI.BadRequestError, /nonsense/);
  await refused({stop: [""]}, OpenAI.BadRequestError, /stop/);
});

test("a stream goes on when a stage is killed", async () => {
  const ask = {...greedy, prompt, max_tokens: 300, temperature: 1, seed: 9};
  const expected = (await client.completions.create(ask)).choices[0].text;
  const stream = await client.completions.create({...ask, stream: true});
  let text = "", chunks = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? "";
    if (++chunks === 5) await killAShard();
  }
  assert.equal(text, expected);
});

test("responses", async () => {
  const ask = {model, input: "Tell me of the king.", instructions: "Be brief.", temperature: 0, max_output_tokens: 16};
  const whole = await client.responses.create(ask);
  assert.equal(whole.status, "incomplete");
  assert.equal(whole.incomplete_details.reason, "max_output_tokens");
  assert.equal(whole.usage.output_tokens, 16);
  assert.ok(whole.output_text.length > 0);
  const kinds = [];
  let text = "", final = null, number = 0;
  for await (const event of await client.responses.create({...ask, stream: true})) {
    assert.equal(event.sequence_number, number++);
    if (kinds.at(-1) !== event.type) kinds.push(event.type);
    if (event.type === "response.output_text.delta") text += event.delta;
    if (event.response) final = event.response;
  }
  assert.equal(text, whole.output_text);
  assert.deepEqual(kinds, ["response.created", "response.in_progress", "response.output_item.added",
    "response.content_part.added", "response.output_text.delta", "response.output_text.done",
    "response.content_part.done", "response.output_item.done", "response.incomplete"]);
  assert.equal(final.output[0].content[0].text, text);
  await assert.rejects(client.responses.create({...ask, previous_response_id: "resp_1"}), /previous_response_id/);
  await assert.rejects(client.responses.create({...ask, model: "gpt-9"}), OpenAI.NotFoundError);
});

test("what Codex sends is taken", async () => {
  const response = await client.responses.create({
    model, instructions: "Be brief.", max_output_tokens: 16, store: false, parallel_tool_calls: false, truncation: "auto",
    input: [{type: "message", role: "user", content: [{type: "input_text", text: "Tell me of the king."}]}],
    tools: [{type: "function", name: "shell", parameters: {type: "object"}, strict: false}, {type: "web_search"}],
    reasoning: {effort: "medium", summary: "auto"}, include: ["reasoning.encrypted_content"], text: {verbosity: "low"}});
  assert.equal(response.object, "response");
  assert.deepEqual(response.tools.map((each) => each.type), ["function"]);
});

test("a prompt that is too long is told as clients expect", async () => {
  const long = [{role: "user", content: "Once upon a time. ".repeat(1000)}];
  await assert.rejects(client.chat.completions.create({...greedy, messages: long}), (error) => {
    assert.deepEqual([error.status, error.code, error.param], [400, "context_length_exceeded", "messages"]);
    return true;
  });
});

test("files and batches", async () => {
  const lines = [1, 2, 3].map((i) => JSON.stringify({
    custom_id: `line ${i}`, method: "POST", url: "/v1/chat/completions",
    body: {...greedy, messages, seed: i, ...(i === 3 && {top_p: 7})}}));
  const file = await client.files.create(
    {purpose: "batch", file: await toFile(Buffer.from(lines.join("\n")), "lines.jsonl")});
  assert.equal(file.filename, "lines.jsonl");
  let batch = await client.batches.create(
    {input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h", metadata: {a: "b"}});
  while (!batch.completed_at) batch = await client.batches.retrieve(batch.id);
  assert.equal(batch.status, "completed");
  assert.deepEqual(batch.request_counts, {total: 3, completed: 2, failed: 1});
  const contentOf = async (id) => (await (await client.files.content(id)).text()).trim().split("\n").map(JSON.parse);
  const results = await contentOf(batch.output_file_id);
  assert.deepEqual(results.map((r) => r.custom_id).sort(), ["line 1", "line 2"]);
  const whole = await client.chat.completions.create({...greedy, messages, seed: 1});
  const first = results.find((r) => r.custom_id === "line 1");
  assert.equal(first.response.body.choices[0].message.content, whole.choices[0].message.content);
  const [failed] = await contentOf(batch.error_file_id);
  assert.equal(failed.response.body.error.param, "top_p");
  // Pages, one after the other.
  const ids = [];
  for await (const each of client.files.list({limit: 1})) ids.push(each.id);
  assert.equal(ids.length, 3);
  assert.deepEqual((await client.batches.list()).data.map((b) => b.id), [batch.id]);
  assert.equal((await client.files.retrieve(file.id)).bytes, lines.join("\n").length);
  await assert.rejects(client.batches.cancel(batch.id), /status 'completed'/);
  assert.ok((await client.files.delete(file.id)).deleted);
  await assert.rejects(client.files.retrieve(file.id), OpenAI.NotFoundError);
  await assert.rejects(client.batches.create(
    {input_file_id: file.id, endpoint: "/v1/embeddings", completion_window: "24h"}), /'\/v1\/embeddings'/);
});
