// Which view is shown, and what all of them show of the server.
import {startWriting, setModel} from "/page/write.js";
import {showPipeline} from "/page/pipeline.js";
import {listenToCache, showCache} from "/page/cache.js";
import {listenToAttention, redrawAttention} from "/page/attention.js";
import {record, drawCharts} from "/page/charts.js";
import {keyHeaders, listenToKey, refusalOf, showKeyState} from "/page/key.js";

const kInterval = 250;
const views = [...document.querySelectorAll("main > section")];

function showView() {
  const wanted = views.find((view) => `#${view.id}` === location.hash) ?? views[0];
  for (const view of views) view.hidden = view !== wanted;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${wanted.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  redrawAttention();
}

// `httpStatus` is that of the answer; 0 where none came.
function showServed(status, httpStatus) {
  const served = document.getElementById("served");
  served.classList.toggle("serving", Boolean(status?.serving));
  const text = !status ? "no answer from the gateway"
    : status.error ? refusalOf(httpStatus) ?? "the orchestrator cannot be reached"
    : `${status.model_name} · ${status.num_stages} × ${status.num_ranks} shards${status.serving ? "" : " · recovering"}`;
  if (served.textContent !== text) served.textContent = text;
}

let timer;
let generation = 0;  // of polls: one that was begun with another key shows nothing

async function poll() {
  clearTimeout(timer);
  const mine = ++generation;
  let status = null, httpStatus = 0;
  try {
    const path = `/page/status${location.hash === "#cache" ? "?sequences" : ""}`;
    const response = await fetch(path, {cache: "no-store", headers: keyHeaders()});
    httpStatus = response.status;
    status = await response.json();
  } catch {
    // Shown below; asked again.
  }
  if (mine !== generation) return;
  showServed(status, httpStatus);
  showKeyState(httpStatus);
  if (status && !status.error) {
    const rates = record(status);
    setModel(status);
    showPipeline(status, rates);
    if (location.hash === "#cache") showCache(status);
    if (location.hash === "#pipeline") drawCharts();
  } else {
    showPipeline(null);
  }
  // A refused key is refused the next time too: asked less often, which keeps servers' logs short.
  const refused = refusalOf(httpStatus) !== undefined;
  timer = setTimeout(poll, refused ? 20 * kInterval : document.hidden ? 4 * kInterval : kInterval);
}

addEventListener("hashchange", showView);
showView();
startWriting();
listenToCache();
listenToAttention();
listenToKey(poll);
poll();
