// A story in a browser, through the gateway: fetch and its stream, nothing else. See README.md beside it.
const output = document.querySelector("output")!;
const button = document.querySelector("button")!;
const gateway = new URLSearchParams(location.search).get("gateway") ?? "http://127.0.0.1:8080";

interface Chunk {
  choices: {text: string}[];
  error?: {message: string};
}

async function* chunksOf(response: Response): AsyncGenerator<Chunk> {
  if (!response.ok || !response.body) throw new Error((await response.json()).error.message);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop()!;
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data !== "[DONE]") yield JSON.parse(data);
    }
  }
}

async function tell(signal: AbortSignal): Promise<void> {
  const response = await fetch(`${gateway}/v1/completions`, {
    method: "POST",
    headers: {"content-type": "application/json"},
    body: JSON.stringify({prompt: "Once upon a time", max_tokens: 60, temperature: 0.7, seed: 1, stream: true}),
    signal,
  });
  for await (const chunk of chunksOf(response)) {
    if (chunk.error) throw new Error(chunk.error.message);
    for (const {text} of chunk.choices) output.append(text);
  }
}

// A click stops the story that is being told; the server notices and stops too.
let abort: AbortController | undefined;
button.addEventListener("click", async () => {
  if (abort) return abort.abort();
  abort = new AbortController();
  output.textContent = "";
  button.textContent = "Stop";
  try {
    await tell(abort.signal);
  } catch (error) {
    if (!abort.signal.aborted) output.textContent = `${error}`;
  }
  abort = undefined;
  button.textContent = "Tell a story";
});
