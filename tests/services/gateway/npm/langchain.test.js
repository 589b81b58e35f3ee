// LangChain's client for OpenAI, as it is.
import assert from "node:assert/strict";
import {test} from "node:test";
import {ChatOpenAI, OpenAI} from "@langchain/openai";
import {baseURL} from "./shared.js";

const options = {model: "storyteller", apiKey: "unused", temperature: 0, maxTokens: 16, maxRetries: 0, configuration: {baseURL}};

test("a chat", async () => {
  const answer = await new ChatOpenAI(options).invoke("Tell me of the king.");
  assert.ok(answer.content.length > 0);
  assert.equal(answer.usage_metadata.output_tokens, 16);
});

test("a chat, streamed", async () => {
  const chat = new ChatOpenAI(options);
  const whole = await chat.invoke("Tell me of the king.");
  let text = "";
  for await (const chunk of await chat.stream("Tell me of the king.")) text += chunk.content;
  assert.equal(text, whole.content);
});

test("a completion", async () => {
  const text = await new OpenAI(options).invoke("Once upon a time");
  assert.ok(text.length > 0);
});
