// The blocks of the KV cache as cells: how many are held by several sequences, by one, or kept for later prompts. Which
// block holds what is not something that the API tells.
import {colour, prepare} from "/page/charts.js";

export function showCache(status) {
  const cache = status.kv_cache;
  const percent = (100 * cache.num_used_blocks / Math.max(1, cache.num_blocks)).toFixed(1);
  const summary = `${cache.num_used_blocks} of ${cache.num_blocks} blocks in use (${percent} %), ` +
    `${cache.num_shared_blocks} of them shared; ${cache.num_cached_blocks} kept for prompts that begin alike. Each has ` +
    `${cache.block_size} positions of a sequence, in all layers. Filled cells are a count, not places.`;
  const line = document.getElementById("cache-summary");
  if (line.textContent !== summary) line.textContent = summary;

  const canvas = document.getElementById("blocks");
  const width = canvas.getBoundingClientRect().width;
  // As large as fits on the screen below the line above.
  const height = Math.max(120, innerHeight - canvas.getBoundingClientRect().top - scrollY - 40);
  const columns = Math.ceil(width / Math.min(24, Math.sqrt(width * height / Math.max(1, cache.num_blocks))));
  const rows = Math.ceil(cache.num_blocks / columns);
  const cell = width / columns;
  canvas.style.height = `${Math.ceil(rows * cell)}px`;
  const {context} = prepare(canvas);
  const gap = cell > 5 ? 1 : 0;
  const [shared, used, free] = ["--second", "--first", "--line"].map(colour);
  for (let i = 0; i < cache.num_blocks; ++i) {
    context.fillStyle = i < cache.num_shared_blocks ? shared : i < cache.num_used_blocks ? used : free;
    context.globalAlpha = 1;
    if (i >= cache.num_used_blocks && i < cache.num_used_blocks + cache.num_cached_blocks) {
      context.fillStyle = used;
      context.globalAlpha = 0.35;
    }
    context.fillRect((i % columns) * cell, Math.floor(i / columns) * cell, cell - gap, cell - gap);
  }
}
