// Requests of OpenAI's API as this page makes them.
import {keyHeaders, refusalOf} from "/page/key.js";

// Parses server-sent events out of pieces of text; calls back with the data of each.
export function eventParser(onData) {
  let rest = "";
  return (piece) => {
    rest += piece;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) onData(data.join("\n"));
    }
  };
}

// Streams `path`; hands every chunk to onChunk. Throws with the server's own words.
export async function stream(path, body, signal, onChunk) {
  const response = await fetch(path, {
    method: "POST",
    headers: {"content-type": "application/json", ...keyHeaders()},
    body: JSON.stringify({...body, stream: true, stream_options: {include_usage: true}}),
    signal,
  });
  if (!response.ok) {
    const answer = await response.json().catch(() => null);
    throw new Error(refusalOf(response.status) ?? answer?.error?.message ?? `HTTP ${response.status}`);
  }
  const parse = eventParser((data) => {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Error(chunk.error.message);
    onChunk(chunk);
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    parse(value);
  }
}
