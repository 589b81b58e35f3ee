// Which view is shown, and what all of them show of the server.
import {startWriting, setModel} from "/page/write.js";
import {showPipeline} from "/page/pipeline.js";
import {listenToCache, showCache} from "/page/cache.js";
import {record, drawCharts} from "/page/charts.js";

const kInterval = 250;
const views = [...document.querySelectorAll("main > section")];

function showView() {
  const wanted = views.find((view) => `#${view.id}` === location.hash) ?? views[0];
  for (const view of views) view.hidden = view !== wanted;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === `#${wanted.id}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function showServed(status) {
  const served = document.getElementById("served");
  served.classList.toggle("serving", Boolean(status?.serving));
  const text = !status ? "no answer from the gateway"
    : status.error ? "the orchestrator cannot be reached"
    : `${status.model_name} · ${status.num_stages} × ${status.num_ranks} shards${status.serving ? "" : " · mending"}`;
  if (served.textContent !== text) served.textContent = text;
}

async function poll() {
  let status = null;
  try {
    const response = await fetch(`/page/status${location.hash === "#cache" ? "?sequences" : ""}`, {cache: "no-store"});
    status = await response.json();
  } catch {
    // Shown below; asked again.
  }
  showServed(status);
  if (status && !status.error) {
    const rates = record(status);
    setModel(status);
    showPipeline(status, rates);
    if (location.hash === "#cache") showCache(status);
    if (location.hash === "#pipeline") drawCharts();
  } else {
    showPipeline(null);
  }
  setTimeout(poll, document.hidden ? 4 * kInterval : kInterval);
}

addEventListener("hashchange", showView);
showView();
startWriting();
listenToCache();
poll();
