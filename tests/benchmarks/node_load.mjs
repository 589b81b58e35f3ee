// Streams completions with Node.js's own client: node node_load.mjs HOST:PORT STREAMS REQUESTS_PER_STREAM [TURN [none|ngram]]
// Each prompt of each turn begins in its own way, so that the server finds nothing again.
const [address, streams, each, turn = "0", draft = "none"] = process.argv.slice(2);
const maxTokens = 256;

// Events of one answer; every token comes in one of its own.
async function answer(seed) {
  const response = await fetch(`http://${address}/v1/completions`, {
    method: "POST",
    headers: {"content-type": "application/json"},
    body: JSON.stringify({prompt: `In the year ${seed} of turn ${turn}, once upon a time`, max_tokens: maxTokens, temperature: 1, seed,
      ignore_eos: true, stream: true, decline_drafts: draft === "none"}),
  });
  if (!response.ok) throw new Error(await response.text());
  const decoder = new TextDecoder();
  let rest = "", text = "";
  for await (const bytes of response.body) {
    const lines = (rest + decoder.decode(bytes, {stream: true})).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (line.startsWith("data: {")) text += JSON.parse(line.slice(6)).choices[0]?.text ?? "";
    }
  }
  if (!text) throw new Error("no text came");
}

async function stream(number) {
  for (let i = 0; i < each; ++i) await answer(100 * number + i);
}

await answer(9999);  // warm
const began = performance.now();
await Promise.all(Array.from({length: Number(streams)}, (_, number) => stream(number)));
const seconds = (performance.now() - began) / 1000;
console.log(JSON.stringify({tokens_per_second: (streams * each * maxTokens) / seconds}));
