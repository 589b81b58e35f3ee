// The same calls with types, which `npx tsc --noEmit -p examples` checks.
import {Client, SluiceError, type Chunk} from "../lib/index.js";

const client = new Client("127.0.0.1:8700,127.0.0.1:8701", {timeoutMs: 60000, retry: {resumeForMs: 10000}});
const abort = new AbortController();
try {
  const answer: string = await client.chat([{role: "user", content: "Tell me of the king."}], {maxTokens: 40, topK: 20});
  for await (const chunk of client.generate({prompt: answer, n: 2, signal: abort.signal})) {
    const {sequence, text}: Chunk = chunk;
    if (sequence === 1 && text.includes(".")) abort.abort();
  }
} catch (error) {
  if (error instanceof SluiceError) console.error(error.codeName, error.details);
} finally {
  client.close();
}
