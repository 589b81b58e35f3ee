// The view that generates: a prompt or a chat, one text or two, and for every token its rank and what else could have
// come.
import {stream} from "/page/events.js";
import {lookInto} from "/page/attention.js";
import {addHelp} from "/page/help.js";
import {keyHeaders} from "/page/key.js";
import {samplingOptions, showSamplingFields} from "/page/sampling.js";
import {copy, curlOf} from "/page/share.js";

const $ = (id) => document.getElementById(id);
const outputs = [...document.querySelectorAll(".output")].map((article) => ({
  article,
  text: article.querySelector(".text"),
  facts: article.querySelector(".facts"),
  buttons: article.querySelector(".buttons"),
  prompt: "",
  request: null,  // {path, body}: the last one
  tokens: [],  // {text, logprob, top: [[text, logprob], ...]}
}));
const turns = [];  // {role, content}
let abort = null;
let model = {};
let modeChosen = false;  // by a person, or with the first model that was shown
const kAlternatives = 10;  // the ranks that are told apart
const kShown = 5;          // of them, in the list of alternatives

export function setModel(status) {
  model = status;
  $("chat-mode").disabled = !status.has_chat_template;
  $("chat-mode").parentElement.title = status.has_chat_template ? "" : "this model has no chat template";
  // A chat where the model can, until a person chooses otherwise.
  if (!modeChosen && status.has_chat_template) $("chat-mode").checked = true;
  if (!modeChosen) showMode();
  modeChosen = true;
}

// In a chat the answers are above the prompt, otherwise below it; the order of elements follows, for keyboards.
function showMode() {
  const form = $("request");
  const answers = form.querySelector(".answers");
  form.classList.toggle("chat", isChat());
  if (isChat()) form.querySelector(".prompt").before(answers);
  else form.append(answers);
  $("prompt").rows = isChat() ? 2 : 3;
  $("prompt-label").textContent = isChat() ? "Message" : "Prompt";
  $("start-label").textContent = isChat() ? "Send" : "Generate";
  $("start").querySelector("kbd").textContent = isChat() ? "⏎" : "Ctrl ⏎";
  $("turns").hidden = !isChat();
  $("new-chat").hidden = !isChat() || !turns.length;
  $("go-on").hidden = $("take-over").hidden = isChat();
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

// 1 for the most probable token; one more than there are alternatives where it is not among them.
function rankOf(token) {
  const index = token.top.findIndex(([text]) => text === token.text);
  return index >= 0 ? index + 1 : token.top.length + 1;
}

function shade(span, rank) {
  const lowest = [11, 4, 2].find((first) => rank >= first);
  if (lowest) span.classList.add(`rank-${lowest}`);
}

const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
const scrollToEnd = () => scrollTo(0, document.documentElement.scrollHeight);

function addToken(output, token) {
  const follows = isChat() && atEnd();
  const span = document.createElement("span");
  span.textContent = token.text;
  if (token.logprob !== undefined) {
    span.className = "token";
    span.dataset.index = output.tokens.length;
    shade(span, rankOf(token));
  }
  output.tokens.push(token);
  output.text.append(span);
  if (follows) scrollToEnd();
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

// The request that continues what an output has; without log-probabilities, which only the page needs.
function requestOf(output, second) {
  const prompt = isChat() ? {messages: [...turns]} : {prompt: output.prompt + textOf(output)};
  return {path: isChat() ? "/v1/chat/completions" : "/v1/completions", body: {...options(second), ...prompt}};
}

function describe(usage, reason, began, first, ended) {
  const seconds = (ended - first) / 1000;
  const facts = [`${usage.prompt_tokens} prompt + ${usage.completion_tokens} generated tokens`];
  if (first !== null) facts.push(`first token after ${(first - began).toFixed(0)} ms`);
  if (usage.completion_tokens > 1 && seconds > 0) facts.push(`${((usage.completion_tokens - 1) / seconds).toFixed(0)} tokens/s`);
  if (reason) facts.push(`finish reason: ${reason}`);
  return facts.join(" · ");
}

// Streams into an output after what it has. Whether it came to an end.
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
  output.request = requestOf(output, second);
  const logprobs = chat ? {logprobs: true, top_logprobs: kAlternatives} : {logprobs: kAlternatives};
  try {
    await stream(output.request.path, {...output.request.body, ...logprobs}, abort.signal, onChunk);
    tell(output, describe(usage, reason, began, first, performance.now()));
    return true;
  } catch (error) {
    const stopped = error.name === "AbortError";
    tell(output, stopped ? `${arrived} tokens; stopped` : error.message, !stopped);
    return stopped;
  } finally {
    output.buttons.hidden = false;
    output.buttons.querySelector(".copied").textContent = "";
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
  $("new-chat").hidden = !isChat() || !turns.length;
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
  const [ended] = await Promise.all(used.map((output, i) => write(output, i === 1)));
  abort = null;
  $("start").disabled = false;
  $("stop-writing").disabled = true;
  const wrote = outputs[0].tokens.length > 0;
  $("go-on").disabled = $("take-over").disabled = !wrote || isChat();
  return ended || wrote;
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
  if (abort) return;
  if (!isChat()) return run(clear);
  if (outputs[0].tokens.length) turns.push({role: "assistant", content: textOf(outputs[0])});
  const message = {role: "user", content: $("prompt").value};
  turns.push(message);
  $("prompt").value = "";
  showTurns();
  const answered = run(clear);
  scrollToEnd();
  if (await answered) return;
  // Not answered: it can be sent again.
  turns.splice(turns.indexOf(message), 1);
  if (!$("prompt").value) $("prompt").value = message.content;
  showTurns();
}

function startChat() {
  abort?.abort();
  turns.length = 0;
  for (const output of outputs) {
    clear(output);
    tell(output, "");
    output.buttons.hidden = true;
  }
  showTurns();
  $("prompt").focus();
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
  const rank = rankOf(token);
  const rows = token.top.slice(0, kShown).map(([text, logprob], i) => [text, logprob, String(i + 1)]);
  if (rank > kShown) rows.push([token.text, token.logprob, rank > token.top.length ? "…" : String(rank)]);
  box.replaceChildren(...rows.map(([text, logprob, number]) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = text === token.text ? "was" : "";
    const code = document.createElement("code");
    code.textContent = JSON.stringify(text).slice(1, -1).replaceAll(" ", "␣");
    const percent = document.createElement("span");
    percent.textContent = `${(100 * Math.exp(logprob)).toFixed(1)} %`;
    const place = document.createElement("span");
    place.className = "rank";
    place.textContent = number;
    button.append(place, code, percent);
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

function listenToButtons(output) {
  const copied = output.buttons.querySelector(".copied");
  const put = (text) => copy(text).then(() => { copied.textContent = "Copied"; }, (error) => { copied.textContent = error.message; });
  output.buttons.querySelector(".copy").addEventListener("click", () => put(output.prompt + textOf(output)));
  output.buttons.querySelector(".look-inside").addEventListener("click", () => lookInto(output.prompt + textOf(output)));
  output.buttons.querySelector(".copy-curl").addEventListener("click", () => {
    put(curlOf(output.request.path, output.request.body, Boolean(keyHeaders().authorization)));
  });
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

// Options are open where there is room beside the text.
function showSettings() {
  const isWide = matchMedia("(min-width: 60.01rem)");
  const show = () => { $("settings").open = isWide.matches; };
  isWide.addEventListener("change", show);
  show();
}

export function startWriting() {
  showSettings();
  for (const option of document.querySelectorAll(".option[data-help]")) addHelp(option, option.dataset.help);
  showSamplingFields($("sampling"));
  for (const mode of document.querySelectorAll("[name=mode]")) {
    mode.addEventListener("change", () => {
      modeChosen = true;
      showMode();
    });
  }
  outputs.forEach(listenToText);
  outputs.forEach(listenToButtons);
  // A field that does not accept its value must be seen to say so.
  $("request").addEventListener("invalid", (event) => {
    for (let at = event.target; at; at = at.parentElement?.closest("details")) if (at.open === false) at.open = true;
  }, true);
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
  $("new-chat").addEventListener("click", startChat);
  $("compare").addEventListener("change", () => {
    for (const option of document.querySelectorAll(".option.second")) option.hidden = !$("compare").checked;
  });
  // As chats do; Shift and Enter is a new line.
  $("prompt").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.ctrlKey || event.metaKey || event.isComposing || !isChat()) return;
    event.preventDefault();
    start();
  });
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
