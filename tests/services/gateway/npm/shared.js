// Where the gateway under test is, and what the tests of all clients share.
export const address = process.env.SLUICE_GATEWAY;
export const baseURL = `http://${address}/v1`;
export const prompt = "Once upon a time there was a king who";
export const messages = [{role: "user", content: "Tell me of the king."}];
export const tool = {
  type: "function",
  function: {name: "weather", description: "Tells the weather.", parameters: {type: "object", properties: {}}},
};

// Ends a shard as a crash would, by the page's own button.
export async function killAShard() {
  const status = await (await fetch(`http://${address}/page/status`)).json();
  const shard = status.processes.find((process) => process.service === "shard");
  const response = await fetch(`http://${address}/page/kill`, {
    method: "POST",
    headers: {"content-type": "application/json", "x-sluice-demo-token": process.env.SLUICE_DEMO_TOKEN},
    body: JSON.stringify({address: shard.address}),
  });
  if (!response.ok) throw new Error(await response.text());
}

// Until nothing runs or waits.
export async function untilIdle() {
  for (;;) {
    const status = await (await fetch(`http://${address}/page/status`)).json();
    if (status.num_running_sequences + status.num_waiting_sequences === 0) return;
  }
}
