// The view that looks into the model: what each token reads, by layer and head; how much of each token is in what becomes of
// another (rollout); and what each layer would say next (lens).
import {colour, prepare} from "/page/charts.js";
import {keyHeaders, refusalOf} from "/page/key.js";

const kLens = 5;
const $ = (id) => document.getElementById(id);
const shown = {
  text: "",
  tokens: [],
  layers: [],       // those with attention
  rollout: null,    // lower triangles, in ten-thousandths
  lens: [],
  maps: new Map(),  // by layer: the heads' triangles
  layer: 0,
  head: 0,
  token: 0,         // whose row is looked at
};
let pair = null;    // [query, key] under the pointer
let asked = 0;      // an answer to anything but the newest call is dropped

const at = (triangle, row, column) => (column > row ? 0 : triangle[row * (row + 1) / 2 + column] / 10000);
// Small weights are what most of a map is made of: the root keeps them visible.
const shadeOf = (weight) => Math.sqrt(Math.min(1, weight));
const visible = (text) => JSON.stringify(text).slice(1, -1).replaceAll(" ", "␣");
const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;

function tell(text, failed = false) {
  $("inspect-facts").textContent = text;
  $("inspect-facts").classList.toggle("failed", failed);
}

async function ask(body) {
  const response = await fetch("/page/inspect", {
    method: "POST", headers: {"content-type": "application/json", ...keyHeaders()}, body: JSON.stringify(body)});
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Error(refusalOf(response.status) ?? answer.error?.message ?? `the gateway answered ${response.status}`);
  return answer;
}

function keepMaps(answer) {
  for (const map of answer.maps) {
    if (!shown.maps.has(map.layer)) shown.maps.set(map.layer, []);
    shown.maps.get(map.layer)[map.head] = map.weights;
  }
}

async function look() {
  const mine = ++asked;
  const text = $("inspect-text").value;
  $("look").disabled = true;
  tell("Looking…");
  const began = performance.now();
  try {
    const answer = await ask({text, rollout: true, lens: kLens});
    if (mine !== asked) return;
    Object.assign(shown, {text, tokens: answer.tokens, layers: answer.attention_layers, rollout: answer.rollout, lens: answer.lens,
      token: answer.tokens.length - 1, head: Math.min(shown.head, answer.num_heads - 1)});
    shown.maps.clear();
    if (!shown.layers.includes(shown.layer)) shown.layer = shown.layers[0];
    tell(`${answer.tokens.length} tokens · ${answer.num_layers} layers, ${answer.attention_layers.length} with attention of ` +
      `${answer.num_heads} heads · ${((performance.now() - began) / 1000).toFixed(1)} s, beside serving`);
    $("seen").hidden = false;
    fillLayers();
    showTokens();
    chooseToken(shown.token);
    await showLayer();
  } catch (error) {
    if (mine === asked) tell(error.message, true);
  } finally {
    if (mine === asked) $("look").disabled = false;
  }
}

// The layer's maps are asked for when it is first looked at.
async function showLayer() {
  const {layer, text} = shown;
  const mine = asked;
  if (!shown.maps.has(layer)) {
    $("heat-caption").textContent = `Layer ${layer}…`;
    try {
      const answer = await ask({text, weights: true, layers: [layer]});
      if (mine !== asked) return;
      keepMaps(answer);
    } catch (error) {
      return mine === asked && tell(error.message, true);
    }
  }
  if (shown.layer === layer) showHeads();
}

function fillLayers() {
  $("inspect-layer").replaceChildren(...shown.layers.map((layer) => new Option(`Layer ${layer}`, layer)));
  $("inspect-layer").value = shown.layer;
}

// One small map for each head.
function showHeads() {
  const heads = shown.maps.get(shown.layer) ?? [];
  $("heads").replaceChildren(...heads.map((weights, head) => {
    const button = document.createElement("button");
    button.type = "button";
    button.title = `Head ${head}`;
    button.setAttribute("aria-label", `Head ${head}`);
    const canvas = document.createElement("canvas");
    button.append(canvas, String(head));
    button.addEventListener("click", () => chooseHead(head));
    return button;
  }));
  heads.forEach((weights, head) => drawCells(prepare($("heads").children[head].firstChild), weights, 0, 0));
  chooseHead(Math.min(shown.head, heads.length - 1));
}

function chooseHead(head) {
  shown.head = head;
  [...$("heads").children].forEach((button, i) => button.setAttribute("aria-pressed", String(i === head)));
  drawHeat();
}

function drawCells({context, width}, weights, left, top) {
  const n = shown.tokens.length, cell = (width - left) / n;
  context.fillStyle = colour("--first");
  for (let row = 0; row < n; ++row) {
    for (let column = 0; column <= row; ++column) {
      const weight = at(weights, row, column);
      if (weight < 0.002) continue;
      context.globalAlpha = shadeOf(weight);
      context.fillRect(left + column * cell, top + row * cell, Math.max(cell - (cell > 6 ? 1 : 0), 0.5), Math.max(cell - (cell > 6 ? 1 : 0), 0.5));
    }
  }
  context.globalAlpha = 1;
  return cell;
}

// Where the cells begin: beside and below the labels, where they are large enough to be read.
function frameOf(canvas) {
  const width = canvas.getBoundingClientRect().width, n = shown.tokens.length;
  const context = canvas.getContext("2d");
  context.font = "11px system-ui, sans-serif";
  const longest = Math.min(width * 0.3, Math.max(...shown.tokens.map((text) => context.measureText(visible(text)).width)) + 8);
  const labelled = (width - longest) / n >= 10;
  return {labelled, left: labelled ? longest : 0, top: labelled ? longest * 0.87 + 4 : 0};
}

function drawLabels(context, frame, cell, height) {
  context.font = "11px system-ui, sans-serif";
  shown.tokens.forEach((text, i) => {
    const chosen = pair ? pair[0] === i : i === shown.token;
    context.fillStyle = colour(chosen ? "--ink" : "--soft");
    context.textAlign = "right";
    context.fillText(visible(text), frame.left - 4, frame.top + (i + 0.5) * cell + 4, frame.left - 6);
    context.save();
    context.translate(frame.left + (i + 0.5) * cell + 3, frame.top - 4);
    context.rotate(-Math.PI / 3);
    context.textAlign = "left";
    context.fillStyle = colour(pair?.[1] === i ? "--ink" : "--soft");
    context.fillText(visible(text), 0, 0, frame.left - 6);
    context.restore();
  });
}

function drawHeat() {
  const weights = shown.maps.get(shown.layer)?.[shown.head];
  if (!weights || $("attention").hidden) return;
  const canvas = $("heat");
  const frame = frameOf(canvas);
  const width = canvas.getBoundingClientRect().width;
  canvas.style.height = `${frame.top + (width - frame.left)}px`;
  const prepared = prepare(canvas);
  const cell = drawCells(prepared, weights, frame.left, frame.top);
  const {context} = prepared;
  if (frame.labelled) drawLabels(context, frame, cell);
  const row = pair ? pair[0] : shown.token;
  context.strokeStyle = colour("--soft");
  context.strokeRect(frame.left + 0.5, frame.top + row * cell - 0.5, (row + 1) * cell - 1, cell);
  if (pair) {
    context.strokeStyle = colour("--ink");
    context.lineWidth = 2;
    context.strokeRect(frame.left + pair[1] * cell, frame.top + pair[0] * cell, cell - 1, cell - 1);
  }
  $("heat-caption").textContent = `Layer ${shown.layer}, head ${shown.head}: each row is a token and what it reads`;
  tellPair(weights);
}

function tellPair(weights) {
  const [row, column] = pair ?? [shown.token, strongest(weights, shown.token)];
  $("pair").textContent = `${row} “${visible(shown.tokens[row])}” reads ${column} “${visible(shown.tokens[column])}”: ` +
    `${at(weights, row, column).toFixed(3)}${pair ? "" : ", the most"}`;
}

function strongest(weights, row) {
  let best = 0;
  for (let column = 1; column <= row; ++column) if (at(weights, row, column) > at(weights, row, best)) best = column;
  return best;
}

// The text, each token as dark as much of it is in the chosen one.
function showTokens() {
  $("flow").replaceChildren(...shown.tokens.map((text, i) => {
    const span = document.createElement("span");
    span.className = "token";
    span.dataset.index = i;
    span.textContent = text;
    return span;
  }));
}

function chooseToken(index) {
  shown.token = index;
  pair = null;
  [...$("flow").children].forEach((span, i) => {
    const share = at(shown.rollout, index, i);
    span.style.backgroundColor = i > index ? "" : `color-mix(in srgb, var(--first) ${Math.round(85 * shadeOf(share))}%, transparent)`;
    span.classList.toggle("later", i > index);
    span.classList.toggle("chosen", i === index);
    span.title = i > index ? "comes later" : `${percent(share)} of what becomes of “${shown.tokens[index]}”`;
  });
  const [first, share] = shown.tokens.slice(0, index).reduce(
    (best, _, i) => (at(shown.rollout, index, i) > best[1] ? [i, at(shown.rollout, index, i)] : best), [-1, 0]);
  $("flow-facts").textContent = `“${visible(shown.tokens[index])}” keeps ${percent(at(shown.rollout, index, index))} of itself` +
    (first < 0 ? "." : ` and takes ${percent(share)} from “${visible(shown.tokens[first])}”, the most.`);
  showLens();
  drawHeat();
}

// For the chosen token a row of each layer, the last one first: it is the model's answer.
function showLens() {
  const next = shown.tokens[shown.token + 1];
  $("lens-next").textContent = next === undefined ? "Next" : `“${visible(next)}”`;
  $("lens").tBodies[0].replaceChildren(...shown.lens.toReversed().map(({layer, positions}) => {
    const position = positions[shown.token];
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = layer;
    row.append(head);
    const cell = row.insertCell();
    cell.textContent = position.next === null ? "–" : percent(position.next);
    for (const [text, probability] of position.top) {
      const each = row.insertCell();
      const code = document.createElement("code");
      code.textContent = visible(text);
      each.append(code, ` ${percent(probability)}`);
      each.style.backgroundColor = `color-mix(in srgb, var(--first) ${Math.round(60 * probability)}%, transparent)`;
      each.classList.toggle("came", text === next);
    }
    return row;
  }));
}

function pairUnder(event) {
  const canvas = $("heat"), frame = frameOf(canvas);
  const cell = (canvas.getBoundingClientRect().width - frame.left) / shown.tokens.length;
  const row = Math.floor((event.offsetY - frame.top) / cell), column = Math.floor((event.offsetX - frame.left) / cell);
  return row >= 0 && column >= 0 && row < shown.tokens.length && column <= row ? [row, column] : null;
}

function movePair(event) {
  const step = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0]}[event.key];
  if (!step || !shown.tokens.length) return;
  event.preventDefault();
  const [row, column] = pair ?? [shown.token, shown.token];
  const nextRow = Math.max(0, Math.min(shown.tokens.length - 1, row + step[0]));
  pair = [nextRow, Math.max(0, Math.min(nextRow, column + step[1]))];
  drawHeat();
}

// Of the playground: its text is looked at here.
export function lookInto(text) {
  $("inspect-text").value = text;
  location.hash = "#attention";
  look();
}

export function redrawAttention() {
  if (!shown.tokens.length || $("attention").hidden) return;
  const heads = shown.maps.get(shown.layer) ?? [];
  heads.forEach((weights, head) => {
    const canvas = $("heads").children[head]?.querySelector("canvas");
    if (canvas) drawCells(prepare(canvas), weights, 0, 0);
  });
  drawHeat();
}

export function listenToAttention() {
  $("inspect").addEventListener("submit", (event) => {
    event.preventDefault();
    look();
  });
  $("inspect-layer").addEventListener("change", () => {
    shown.layer = Number($("inspect-layer").value);
    pair = null;
    showLayer();
  });
  const index = (event) => event.target.closest?.("[data-index]")?.dataset.index;
  $("flow").addEventListener("click", (event) => index(event) !== undefined && chooseToken(Number(index(event))));
  $("flow").addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step || !shown.tokens.length) return;
    event.preventDefault();
    chooseToken(Math.max(0, Math.min(shown.tokens.length - 1, shown.token + step)));
  });
  const heat = $("heat");
  const point = (event) => {
    pair = pairUnder(event);
    drawHeat();
  };
  heat.addEventListener("mousemove", point);
  heat.addEventListener("click", (event) => {
    point(event);
    if (pair) chooseToken(pair[0]);
  });
  heat.addEventListener("mouseleave", () => {
    pair = null;
    drawHeat();
  });
  heat.addEventListener("keydown", movePair);
  addEventListener("resize", redrawAttention);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAttention);
}
