// Vercel's `ai` through its provider for compatible servers, as they are.
import assert from "node:assert/strict";
import {test} from "node:test";
import {createOpenAICompatible} from "@ai-sdk/openai-compatible";
import {generateText, streamText} from "ai";
import {baseURL, killAShard} from "./shared.js";

const provider = createOpenAICompatible({name: "sluice", baseURL, includeUsage: true});
const ask = {model: provider("storyteller"), prompt: "Tell me of the king.", temperature: 0, maxOutputTokens: 16, maxRetries: 0};

test("text", async () => {
  const answer = await generateText(ask);
  assert.ok(answer.text.length > 0);
  assert.equal(answer.finishReason, "length");
  assert.equal(answer.usage.outputTokens, 16);
});

test("streamed, it is the same text", async () => {
  const whole = await generateText(ask);
  const stream = streamText(ask);
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, whole.text);
  assert.equal((await stream.usage).outputTokens, 16);
});

test("through the model of completions, while a stage is killed", async () => {
  const model = provider.completionModel("storyteller");
  const long = {...ask, model, maxOutputTokens: 200, temperature: 1, seed: 4};
  const expected = (await generateText(long)).text;
  let text = "", pieces = 0;
  for await (const piece of streamText(long).textStream) {
    text += piece;
    if (++pieces === 5) await killAShard();
  }
  assert.equal(text, expected);
});

test("an error says why", async () => {
  await assert.rejects(generateText({...ask, model: provider("gpt-9")}), /gpt-9/);
});
