// The processes as a picture that lives: what is lost turns red, and returns.
import {keyHeaders} from "/page/key.js";
import {timeUntilBack} from "/page/recovery.js";

const figures = [
  ["Tokens per second", (s, r) => r.tokens.toFixed(0)],
  ["Steps per second", (s, r) => r.steps.toFixed(0)],
  ["Running sequences", (s) => s.num_running_sequences],
  ["Waiting sequences", (s) => s.num_waiting_sequences],
  ["Tokens generated", (s) => s.num_generated_tokens.toLocaleString("en")],
  ["Recoveries", (s) => s.num_recoveries],
];

const element = (tag, properties = {}, ...children) => {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
};

function showFigures(status, rates) {
  const list = document.getElementById("figures");
  if (!list.children.length) {
    list.append(...figures.map(([name]) => element("div", {}, element("dt", {textContent: name}), element("dd"))));
  }
  figures.forEach(([, value], i) => {
    list.children[i].lastChild.textContent = status ? value(status, rates) : "–";
  });
}

// [[process, ...], ...]: columns in the order a token travels them.
function columnsOf(processes) {
  const of = (service) => processes.filter((process) => process.service === service);
  const shards = [];
  for (const shard of of("shard")) (shards[shard.stage] ??= []).push(shard);
  for (const stage of shards) stage?.sort((a, b) => a.rank - b.rank);
  return [of("orchestrator"), of("tokenizer"), of("embedding"), ...shards, of("sampler")].filter((c) => c?.length);
}

const titleOf = (process) =>
  process.service === "shard" ? `shard ${process.stage}·${process.rank}` : process.service;

const mebibytes = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

function linesOf(process) {
  const lines = [];
  if (process.weight_bytes) lines.push(`weights ${mebibytes(process.weight_bytes)}`);
  if (process.kv_bytes) lines.push(`KV cache ${mebibytes(process.kv_bytes)}`);
  if (process.arithmetic) lines.push(process.arithmetic.split(",")[0]);
  return lines;
}

// What is shown of a process that was killed here: that it is lost, then for a while how soon it was back.
const kSeen = 3000;  // ms
const losses = new Map();  // by address: {back: null while it is away, else the time in ms, until: when that is old}
let lastStatus = null;

const lookAtStatus = () =>
  fetch("/page/status", {cache: "no-store", headers: keyHeaders()}).then((r) => r.json()).catch(() => null);

async function watchReturn(process, killed) {
  const clock = {look: lookAtStatus, now: () => performance.now(),
    sleep: (ms) => new Promise((done) => setTimeout(done, ms))};
  const loss = {back: null, until: Infinity};
  losses.set(process.address, loss);
  cardOf(process, true);
  const back = await timeUntilBack(process.address, lastStatus, killed, clock);
  if (losses.get(process.address) !== loss) return;  // killed once more
  if (back === null) return losses.delete(process.address);
  losses.set(process.address, {back, until: performance.now() + kSeen});
  cardOf({...process, ready: true}, true);
  document.getElementById("notice").textContent =
    `killed ${titleOf(process)} with signal 9: back after ${back.toFixed(0)} ms, open streams go on with the same tokens`;
}

// The token in the address that `sluice up --demo` prints. Kept for this tab: views change the address.
const given = new URLSearchParams(location.hash.slice(1)).get("demo");
if (given) {
  sessionStorage.setItem("demo-token", given);
  history.replaceState(null, "", location.pathname);
}
const demoToken = () => sessionStorage.getItem("demo-token");

async function kill(process) {
  const notice = document.getElementById("notice");
  const killed = performance.now();
  const response = await fetch("/page/kill", {
    method: "POST",
    headers: {"content-type": "application/json", "x-sluice-demo-token": demoToken(), ...keyHeaders()},
    body: JSON.stringify({address: process.address}),
  }).catch(() => null);
  const answer = await response?.json().catch(() => null);
  if (response?.ok) watchReturn(process, killed);
  notice.textContent = response?.ok
    ? `killed ${titleOf(process)} with signal 9: open streams pause, and go on with the same tokens`
    : `could not kill ${titleOf(process)}: ${answer?.error?.message ?? "no answer"}`;
}

const cards = new Map();  // by address

function cardOf(process, demo) {
  let card = cards.get(process.address);
  if (!card) {
    card = element("div", {className: "process", role: "listitem"}, element("h3"), element("p"),
      element("p", {className: "facts"}));
    if (demo && demoToken() && process.service !== "orchestrator") {
      const button = element("button", {type: "button", className: "danger", textContent: "kill −9"});
      button.addEventListener("click", () => kill(process));
      button.setAttribute("aria-label", `Kill ${titleOf(process)}`);
      card.append(button);
    }
    cards.set(process.address, card);
  }
  const loss = losses.get(process.address);
  if (loss && performance.now() > loss.until) losses.delete(process.address);
  const lost = !process.ready || (loss !== undefined && loss.back === null);
  const wasLost = !lost && losses.has(process.address);
  const [title, state, facts] = card.children;
  card.classList.toggle("lost", lost);
  card.classList.toggle("returned", wasLost);
  title.textContent = titleOf(process);
  state.textContent = lost ? "lost: waiting for its replacement" : wasLost ? `back after ${loss.back.toFixed(0)} ms` : "ready";
  facts.textContent = linesOf(process).join("\n");
  card.title = process.detail || process.arithmetic || "";
  return card;
}

let shape = "";

export function showPipeline(status, rates) {
  showFigures(status, rates);
  lastStatus = status ?? lastStatus;
  if (!status) {
    for (const card of cards.values()) card.classList.add("lost");
    return;
  }
  const columns = columnsOf(status.processes);
  const newShape = columns.map((column) => column.map((p) => p.address).join()).join(";");
  if (newShape !== shape) {
    shape = newShape;
    cards.clear();
    document.getElementById("stages").replaceChildren(...columns.map((column) =>
      element("div", {className: "stage"}, ...column.map((process) => cardOf(process, status.demo)))));
  }
  for (const process of status.processes) cardOf(process, status.demo);
  for (const stage of document.querySelectorAll(".stage")) stage.classList.toggle("flowing", rates.steps > 0);
}
