// How long a killed process is away.
const kLook = 10;  // ms between two looks at the status
const kPatience = 20000;  // ms

// Looks at the status until the pipeline serves again without the process that was killed at time `killed`: the time in
// ms that this took, or null where it does not come back. `before` is the status when it was killed; `look` asks for
// the status now, null for no answer.
export async function timeUntilBack(address, before, killed, {look, now, sleep}) {
  let lost = false;
  while (now() - killed < kPatience) {
    const status = await look();
    const process = status?.processes?.find((p) => p.address === address);
    lost ||= process !== undefined && !process.ready;
    const replaced = lost || (status?.num_recoveries ?? 0) > before.num_recoveries;
    if (replaced && process?.ready && status.serving) return now() - killed;
    await sleep(kLook);
  }
  return null;
}
