// The view that writes: a prompt or a conversation, one text or two side by side, and for every token how probable it
// was and what else could have come.
import {stream} from "/page/events.js";
import {samplingOptions, showSamplingFields} from "/page/sampling.js";

const $ = (id) => document.getElementById(id);
const outputs = [...document.querySelectorAll(".output")].map((article) => ({
  article,
  text: article.querySelector(".text"),
  facts: article.querySelector(".facts"),
  prompt: "",
  tokens: [],  // {text, logprob, top: [[text, logprob], ...]}
}));
const turns = [];  // {role, content}
let abort = null;
let model = {};
let modeChosen = false;  // by a person, or with the first model that was shown

export function setModel(status) {
  model = status;
  $("chat-mode").disabled = !status.has_chat_template;
  $("chat-mode").parentElement.title = status.has_chat_template ? "" : "this model has no chat template";
  // What a model can do, people expect first; whoever has chosen otherwise keeps that.
  if (!modeChosen && status.has_chat_template) $("chat-mode").checked = true;
  modeChosen = true;
}

const isChat = () => $("chat-mode").checked;
const numberOf = (id) => ($(id).value === "" ? undefined : Number($(id).value));

function options(second) {
  const seed = second && $("seed2").value !== "" ? numberOf("seed2") : numberOf("seed");
  return {
    model: model.model_name,
    max_tokens: numberOf("max_tokens"),
    temperature: numberOf(second ? "temperature2" : "temperature"),
    top_p: numberOf("top_p"),
    top_k: numberOf("top_k") || undefined,
    seed,
    stop: $("stop").value || undefined,
    ignore_eos: $("ignore_eos").checked || undefined,
    guided_json: $("guided_json").value || undefined,
    guided_regex: $("guided_regex").value || undefined,
    ...samplingOptions(),
  };
}

function shade(span, logprob) {
  const doubt = 1 - Math.exp(logprob);
  span.style.backgroundColor = `rgba(${getComputedStyle(document.documentElement).getPropertyValue("--doubt")}, ${(0.75 * doubt).toFixed(3)})`;
}

function addToken(output, token) {
  const span = document.createElement("span");
  span.textContent = token.text;
  if (token.logprob !== undefined) {
    span.className = "token";
    span.dataset.index = output.tokens.length;
    shade(span, token.logprob);
  }
  output.tokens.push(token);
  output.text.append(span);
}

// The tokens of a chunk of a completion; where pieces of characters don't add up to its text, the text as one.
function tokensOf(choice) {
  const logprobs = choice.logprobs;
  if (!logprobs || logprobs.tokens.join("") !== choice.text) return choice.text ? [{text: choice.text}] : [];
  return logprobs.tokens.map((text, i) => ({
    text,
    logprob: logprobs.token_logprobs[i],
    top: Object.entries(logprobs.top_logprobs[i]).sort((a, b) => b[1] - a[1]),
  }));
}

function tokensOfDelta(choice) {
  const content = choice.delta.content ?? "";
  const tokens = choice.logprobs?.content ?? [];
  if (!tokens.length || tokens.map((t) => t.token).join("") !== content) return content ? [{text: content}] : [];
  return tokens.map((t) => ({text: t.token, logprob: t.logprob, top: t.top_logprobs.map((o) => [o.token, o.logprob])}));
}

function tell(output, text, failed = false) {
  output.facts.textContent = text;
  output.facts.classList.toggle("failed", failed);
}

const textOf = (output) => output.tokens.map((token) => token.text).join("");

// Streams into an output after what it has.
async function write(output, second) {
  const began = performance.now();
  let first = null, usage = null, reason = null, arrived = 0;
  const onChunk = (chunk) => {
    usage = chunk.usage ?? usage;
    for (const choice of chunk.choices) {
      reason = choice.finish_reason ?? reason;
      for (const token of chat ? tokensOfDelta(choice) : tokensOf(choice)) {
        first ??= performance.now();
        ++arrived;
        addToken(output, token);
      }
    }
    tell(output, `${arrived} tokens…`);
  };
  const chat = isChat();
  const body = chat
    ? {...options(second), messages: [...turns], logprobs: true, top_logprobs: 5}
    : {...options(second), prompt: output.prompt + textOf(output), logprobs: 5};
  try {
    await stream(chat ? "/v1/chat/completions" : "/v1/completions", body, abort.signal, onChunk);
    const seconds = (performance.now() - first) / 1000;
    const rate = usage.completion_tokens > 1 ? `, ${((usage.completion_tokens - 1) / seconds).toFixed(0)} tokens/s` : "";
    tell(output, `${usage.completion_tokens} tokens after ${usage.prompt_tokens}; first after ` +
      `${(first - began).toFixed(0)} ms${rate}; ended by ${reason}`);
  } catch (error) {
    const stopped = error.name === "AbortError";
    tell(output, stopped ? `${arrived} tokens; stopped` : error.message, !stopped);
  }
}

function showTurns() {
  $("turns").replaceChildren(...turns.map(({role, content}) => {
    const turn = document.createElement("p");
    turn.className = `turn ${role}`;
    turn.textContent = content;
    turn.setAttribute("aria-label", role);
    return turn;
  }));
}

async function run(prepareOutput) {
  if (abort) return;
  abort = new AbortController();
  $("alternatives").hidden = true;
  for (const id of ["start", "go-on", "take-over"]) $(id).disabled = true;
  $("stop-writing").disabled = false;
  const used = $("compare").checked ? outputs : outputs.slice(0, 1);
  outputs[1].article.hidden = used.length < 2;
  used.forEach(prepareOutput);
  await Promise.all(used.map((output, i) => write(output, i === 1)));
  abort = null;
  $("start").disabled = false;
  $("stop-writing").disabled = true;
  const wrote = outputs[0].tokens.length > 0;
  $("go-on").disabled = $("take-over").disabled = !wrote || isChat();
}

function clear(output) {
  output.prompt = isChat() ? "" : $("prompt").value;
  output.tokens = [];
  const given = document.createElement("span");
  given.className = "given";
  given.textContent = output.prompt;
  output.text.replaceChildren(given);
}

async function start() {
  if (isChat()) {
    if (outputs[0].tokens.length) turns.push({role: "assistant", content: textOf(outputs[0])});
    turns.push({role: "user", content: $("prompt").value});
    $("prompt").value = "";
    showTurns();
  }
  await run(clear);
}

// Cuts an output before a token, puts another one there, and goes on.
function goOnWith(output, index, text) {
  output.tokens.length = index;
  [...output.text.children].slice(index + 1).forEach((span) => span.remove());
  addToken(output, {text});
  if (abort || isChat()) return;
  $("compare").checked = false;
  if (output !== outputs[0]) {
    clear(outputs[0]);
    const kept = output.tokens;
    outputs[0].prompt = output.prompt;
    kept.forEach((token) => addToken(outputs[0], token));
  }
  run(() => {});
}

function showAlternatives(span, output) {
  const index = Number(span.dataset.index);
  const token = output.tokens[index];
  const box = $("alternatives");
  const rows = token.top.some(([text]) => text === token.text) ? token.top : [...token.top, [token.text, token.logprob]];
  box.replaceChildren(...rows.map(([text, logprob]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = text === token.text ? "was" : "";
    const code = document.createElement("code");
    code.textContent = JSON.stringify(text).slice(1, -1).replaceAll(" ", "␣");
    const percent = document.createElement("span");
    percent.textContent = `${(100 * Math.exp(logprob)).toFixed(1)} %`;
    button.append(code, percent);
    button.addEventListener("click", () => {
      box.hidden = true;
      goOnWith(output, index, text);
    });
    return button;
  }));
  const place = span.getClientRects()[0];
  box.hidden = false;
  box.style.left = `${Math.max(8, Math.min(place.left, innerWidth - box.offsetWidth - 8)) + scrollX}px`;
  box.style.top = `${place.bottom + scrollY}px`;
  output.text.querySelector(".chosen")?.classList.remove("chosen");
  span.classList.add("chosen");
}

function listenToText(output) {
  const under = (event) => event.target.closest?.(".token");
  output.text.addEventListener("mouseover", (event) => under(event) && showAlternatives(under(event), output));
  output.text.addEventListener("click", (event) => under(event) && showAlternatives(under(event), output));
  output.text.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    const spans = [...output.text.querySelectorAll(".token")];
    if (event.key === "Enter" && !$("alternatives").hidden) $("alternatives").querySelector("button").focus();
    if (!step || !spans.length) return;
    event.preventDefault();
    const at = spans.findIndex((span) => span.classList.contains("chosen"));
    showAlternatives(spans[Math.max(0, Math.min(spans.length - 1, at + step))], output);
  });
}

export function startWriting() {
  showSamplingFields($("sampling"));
  for (const mode of document.querySelectorAll("[name=mode]")) {
    mode.addEventListener("change", () => { modeChosen = true; });
  }
  outputs.forEach(listenToText);
  $("request").addEventListener("submit", (event) => {
    event.preventDefault();
    start();
  });
  $("stop-writing").addEventListener("click", () => abort?.abort());
  $("go-on").addEventListener("click", () => run(() => {}));
  $("take-over").addEventListener("click", () => {
    $("prompt").value = outputs[0].prompt + textOf(outputs[0]);
    $("prompt").focus();
  });
  $("compare").addEventListener("change", () => { $("other").hidden = !$("compare").checked; });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      $("alternatives").hidden = true;
      abort?.abort();
    }
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) start();
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".token, .alternatives")) $("alternatives").hidden = true;
  });
}
