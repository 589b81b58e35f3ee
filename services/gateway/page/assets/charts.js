// The last two minutes as lines. Drawn by hand: four charts need no library.

const kSeconds = 120;
const samples = [];  // {time, tokens, steps, waiting, running, first, between, cache}
let previous = null;

// The median of what a histogram (cumulative counts by upper bound) gained since `before`, in its unit.
function medianGained(now, before) {
  const gained = now.counts.map((count, i) => count - (before?.counts[i] ?? 0));
  const total = gained.at(-1);
  if (!(total > 0)) return null;
  const index = gained.findIndex((count) => count * 2 >= total);
  const low = index > 0 ? now.bounds[index - 1] : 0;
  const high = now.bounds[index] ?? low;
  const below = index > 0 ? gained[index - 1] : 0;
  return low + (high - low) * (total / 2 - below) / Math.max(1, gained[index] - below);
}

// Adds a sample; returns the rates since the one before.
export function record(status) {
  const time = performance.now() / 1000;
  const span = previous ? time - previous.time : 0;
  const rate = (name) => (span > 0 ? Math.max(0, (status[name] - previous.status[name]) / span) : 0);
  const sample = {
    time,
    tokens: rate("num_generated_tokens"),
    steps: rate("num_steps"),
    waiting: status.num_waiting_sequences,
    running: status.num_running_sequences,
    first: medianGained(status.time_to_first_token, previous?.status.time_to_first_token),
    between: medianGained(status.time_between_tokens, previous?.status.time_between_tokens),
    cache: 100 * status.kv_cache.num_used_blocks / Math.max(1, status.kv_cache.num_blocks),
  };
  previous = {time, status};
  samples.push(sample);
  while (samples[0].time < time - kSeconds) samples.shift();
  return sample;
}

const charts = {
  tokens: [["tokens", "--first"]],
  queue: [["waiting", "--second"], ["running", "--first"]],
  latency: [["first", "--second"], ["between", "--first"]],
  cache: [["cache", "--first"]],
};
const names = {tokens: "tokens/s", waiting: "waiting", running: "running", first: "first token",
               between: "between tokens", cache: "in use"};

function niceTop(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 5, 10].map((k) => k * unit).find((top) => top >= value);
}

// A canvas with the size of its box, cleared, in CSS pixels.
export function prepare(canvas) {
  const box = canvas.getBoundingClientRect();
  const scale = devicePixelRatio;
  canvas.width = Math.round(box.width * scale);
  canvas.height = Math.round(box.height * scale);
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  return {context, width: box.width, height: box.height};
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function draw(canvas) {
  const series = charts[canvas.dataset.series];
  const {context, width, height} = prepare(canvas);
  const left = 44, bottom = height - 18, now = performance.now() / 1000;
  const most = Math.max(...samples.flatMap((s) => series.map(([name]) => s[name] ?? 0)), 1);
  const top = canvas.dataset.series === "cache" ? 100 : niceTop(most);
  const x = (time) => left + (width - left) * (1 - (now - time) / kSeconds);
  const y = (value) => bottom - (bottom - 8) * value / top;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour("--soft");
  context.strokeStyle = colour("--line");
  context.textAlign = "right";
  for (const part of [0, 0.5, 1]) {
    context.fillText(String(Number((top * part).toPrecision(2))), left - 6, y(top * part) + 4);
    context.beginPath();
    context.moveTo(left, y(top * part));
    context.lineTo(width, y(top * part));
    context.stroke();
  }
  let described = left;
  for (const [name, hue] of series) {
    context.strokeStyle = context.fillStyle = colour(hue);
    context.lineWidth = 1.75;
    context.beginPath();
    let drawing = false;
    for (const sample of samples) {
      if (sample[name] === null) continue;
      context[drawing ? "lineTo" : "moveTo"](x(sample.time), y(sample[name]));
      drawing = true;
    }
    context.stroke();
    const last = samples.findLast((sample) => sample[name] !== null)?.[name];
    const text = `${names[name]} ${last === undefined ? "–" : last.toFixed(last < 10 ? 1 : 0)}`;
    context.textAlign = "left";
    context.fillText(text, described, height - 3);
    described += context.measureText(text).width + 16;
  }
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", series.map(([name]) => {
    const last = samples.at(-1)?.[name];
    return `${names[name]}: ${last == null ? "none" : last.toFixed(1)}`;
  }).join(", "));
}

export function drawCharts() {
  for (const canvas of document.querySelectorAll("canvas[data-series]")) draw(canvas);
}
