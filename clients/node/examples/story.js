// Streams a story. Usage: node examples/story.js [HOST:PORT]
import {Client} from "../lib/index.js";

const client = new Client(process.argv[2] ?? "127.0.0.1:8700", {timeoutMs: 60000});
const stream = client.generate({prompt: "Once upon a time", maxTokens: 60, temperature: 0.7, seed: 1});
for await (const chunk of stream) process.stdout.write(chunk.text);
console.log(`\n${stream.finished.usage.numGeneratedTokens} tokens`);
client.close();
