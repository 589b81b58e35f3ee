// Runs conformance cases with clients/node; see the README of tests/conformance for what comes and goes.
import {readFileSync} from "node:fs";
import {createInterface} from "node:readline";

const {Client, SluiceError, noRetry} = await import(process.argv[2]);

const say = (fields) => process.stdout.write(`${JSON.stringify(fields)}\n`);
const position = ({logprob, top}) => ({logprob, top: top.map((entry) => entry.tokenId)});

async function generate(client, test, timeoutMs) {
  const n = Math.max(1, test.request.n ?? 1);
  const texts = Array(n).fill(""), ids = Array.from({length: n}, () => []), logprobs = Array.from({length: n}, () => []);
  let count = 0;
  const stream = client.send(test.request, {timeoutMs});
  for await (const chunk of stream) {
    texts[chunk.sequence] += chunk.text;
    ids[chunk.sequence].push(...chunk.tokenIds);
    logprobs[chunk.sequence].push(...chunk.logprobs.map(position));
    if (++count === 3) say({id: test.id, event: "chunk"});
    if (count === test.cancel_after) return {cancelled: true};
  }
  const {sequences, usage, seed} = stream.finished;
  return {texts, token_ids: ids, logprobs, stop_strings: sequences.map((s) => s.stopString),
    reasons: sequences.map((s) => s.reason), prompt_tokens: usage.numPromptTokens, seed};
}

async function answer(client, test) {
  const call = {timeoutMs: test.timeout_ms ?? 60000};
  switch (test.op ?? "generate") {
    case "generate": return generate(client, test, call.timeoutMs);
    case "score": {
      const score = await client.score(test.request.text, {top: test.request.top, adapter: test.request.adapter, ...call});
      return {token_ids: score.tokenIds, logprobs: score.logprobs.map(position), mean_nll: score.meanNll};
    }
    case "tokenize": return {token_ids: await client.tokenize(test.request.text, call)};
    case "detokenize": return {text: await client.detokenize(test.request.tokenIds, call)};
    case "embed": return {embeddings: await client.embed(test.request.inputs.map(({text}) => text), call)};
    case "rerank": return {scores: await client.rerank(test.request.query, test.request.documents, call)};
    case "model": {
      const {name, vocabularySize, maxPositions} = await client.model(call);
      return {name, vocabulary_size: vocabularySize, max_positions: maxPositions};
    }
    default: return {serving: (await client.status(call)).serving};
  }
}

async function run(client, test) {
  try {
    say({id: test.id, result: await answer(client, test)});
  } catch (error) {
    if (!(error instanceof SluiceError)) throw error;
    say({id: test.id, error: {code: error.codeName, message: error.details}});
  }
}

const settings = JSON.parse(process.env.SLUICE_CLIENT);
const client = new Client(settings.endpoints, {
  tls: settings.ca && {authority: readFileSync(settings.ca)},
  token: settings.token,
  retry: settings.retry === false ? noRetry : undefined,
});
const running = [];
for await (const line of createInterface({input: process.stdin})) running.push(run(client, JSON.parse(line)));
await Promise.all(running);
client.close();
