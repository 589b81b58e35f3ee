// The blocks of the KV cache as cells: those that several sequences hold, then each sequence's own in a colour of its own,
// then those cached for later prompts; beside them the ledger. The API reports how many blocks there are, not where.
import {colour, prepare} from "/page/charts.js";

const kColumns = [["request_id", "Request"], ["state", "State"], ["num_prompt_tokens", "Prompt"], ["num_generated_tokens", "Generated"],
  ["num_held_blocks", "Blocks"], ["num_shared_blocks", "Shared"], ["num_hit_positions", "Cache hits"], ["num_preemptions", "Preempted"]];
const $ = (id) => document.getElementById(id);
let layout = {columns: 1, cell: 1, runs: []};  // runs: {name, from, to}, by cell
let chosen = null;                             // the sequence under the pointer, or focused
let shown = null;

const nameOf = (sequence) => `${sequence.request_id}/${sequence.sequence}`;
// Neighbours differ, and a sequence keeps its colour while others come and go.
function colourOf(name) {
  let hash = 0;
  for (const letter of name) hash = (31 * hash + letter.codePointAt(0)) >>> 0;
  return `hsl(${(hash * 137.508) % 360} 62% 52%)`;
}

// What each cell shows, as runs of cells.
function runsOf(cache, sequences) {
  const runs = [];
  const add = (name, count, fill, alpha = 1) => {
    const from = runs.at(-1)?.to ?? 0;
    if (count > 0) runs.push({name, from, to: Math.min(from + count, cache.num_blocks), fill, alpha});
  };
  const used = () => runs.at(-1)?.to ?? 0;
  add(null, cache.num_shared_blocks, "shared");
  for (const sequence of sequences) {
    const own = Math.min(sequence.num_held_blocks - sequence.num_shared_blocks, cache.num_used_blocks - used());
    add(nameOf(sequence), own, colourOf(nameOf(sequence)));
  }
  add(null, cache.num_used_blocks - used(), colour("--first"));
  add(null, cache.num_cached_blocks, colour("--first"), 0.35);
  add(null, cache.num_blocks - used(), colour("--line"));
  return runs;
}

// A shared block has a bar across, so that it is told without its colour too.
function drawCell(context, run, x, y, size) {
  context.globalAlpha = run.alpha * (chosen && run.name !== chosen ? 0.3 : 1);
  context.fillStyle = run.fill === "shared" ? colour("--second") : run.fill;
  context.fillRect(x, y, size, size);
  if (run.fill !== "shared" || size < 4) return;
  context.fillStyle = colour("--card");
  context.fillRect(x, y + size * 0.4, size, size * 0.2);
}

function draw() {
  const {context} = prepare($("blocks"));
  const {columns, cell, runs} = layout;
  const gap = cell > 5 ? 1 : 0;
  for (const run of runs) {
    for (let i = run.from; i < run.to; ++i) {
      drawCell(context, run, (i % columns) * cell, Math.floor(i / columns) * cell, cell - gap);
    }
  }
}

function choose(name) {
  if (name === chosen) return;
  chosen = name;
  for (const row of $("ledger").tBodies[0].rows) row.classList.toggle("chosen", row.dataset.name === chosen);
  draw();
}

function fillRow(row, sequence) {
  kColumns.forEach(([member], i) => {
    const text = member === "request_id" ? nameOf(sequence) : String(sequence[member]);
    if (row.cells[i].textContent !== text) row.cells[i].textContent = text;
  });
}

// Rows stay the same elements while their sequences do, so that focus stays where it is.
function showLedger(sequences) {
  const body = $("ledger").tBodies[0];
  const rows = new Map([...body.rows].map((row) => [row.dataset.name, row]));
  for (const sequence of sequences) {
    const name = nameOf(sequence);
    let row = rows.get(name);
    rows.delete(name);
    if (!row) {
      row = body.insertRow();
      row.dataset.name = name;
      row.tabIndex = 0;
      kColumns.forEach(() => row.insertCell());
      row.cells[0].style.borderLeft = `.5rem solid ${colourOf(name)}`;
    }
    fillRow(row, sequence);
  }
  rows.forEach((row) => row.remove());
  if (chosen && ![...body.rows].some((row) => row.dataset.name === chosen)) chosen = null;
  $("ledger-empty").hidden = sequences.length > 0;
}

export function showCache(status) {
  shown = status;
  const cache = status.kv_cache;
  const percent = (100 * cache.num_used_blocks / Math.max(1, cache.num_blocks)).toFixed(1);
  const summary = `${cache.num_used_blocks} of ${cache.num_blocks} blocks in use (${percent} %), ` +
    `${cache.num_shared_blocks} of them shared (with a bar); ${cache.num_cached_blocks} cached for prompts with the same prefix (pale). ` +
    `A block holds ${cache.block_size} tokens of a sequence. The cells show how many there are, not where they are.`;
  if ($("cache-summary").textContent !== summary) $("cache-summary").textContent = summary;
  showLedger(status.sequences);

  const canvas = $("blocks");
  const width = canvas.getBoundingClientRect().width;
  // As large as fits on the screen below the line above.
  const height = Math.max(120, innerHeight - canvas.getBoundingClientRect().top - scrollY - 40);
  const columns = Math.ceil(width / Math.min(24, Math.sqrt(width * height / Math.max(1, cache.num_blocks))));
  const cell = width / columns;
  canvas.style.height = `${Math.ceil(Math.ceil(cache.num_blocks / columns) * cell)}px`;
  layout = {columns, cell, runs: runsOf(cache, status.sequences)};
  draw();
}

export function listenToCache() {
  const canvas = $("blocks");
  canvas.addEventListener("mousemove", (event) => {
    const index = Math.floor(event.offsetY / layout.cell) * layout.columns + Math.floor(event.offsetX / layout.cell);
    choose(layout.runs.find((run) => index >= run.from && index < run.to)?.name ?? null);
  });
  canvas.addEventListener("mouseleave", () => choose(null));
  const rowOf = (event) => event.target.closest?.("tbody tr")?.dataset.name ?? null;
  for (const kind of ["mouseover", "focusin"]) $("ledger").addEventListener(kind, (event) => choose(rowOf(event)));
  for (const kind of ["mouseleave", "focusout"]) $("ledger").addEventListener(kind, () => choose(null));
  $("ledger").tHead.rows[0].replaceChildren(...kColumns.map(([, title]) => {
    const head = document.createElement("th");
    head.scope = "col";
    head.textContent = title;
    return head;
  }));
  addEventListener("resize", () => shown && !$("cache").hidden && showCache(shown));
}
