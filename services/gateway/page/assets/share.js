// What leaves the page: a text to the clipboard, a request as a command.

// Browsers offer the clipboard to pages of https and of localhost alone; elsewhere a selection is copied.
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("this browser does not copy from pages without https");
}

// A word of a POSIX shell.
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// The request as curl sends it. The API key stays out of it: it is taken from the shell's environment.
export function curlOf(path, body, withKey) {
  const lines = [`curl ${quoted(location.origin + path)}`, `-H 'Content-Type: application/json'`];
  if (withKey) lines.push(`-H "Authorization: Bearer $SLUICE_API_KEY"`);
  lines.push(`-d ${quoted(JSON.stringify(body, null, 2))}`);
  return lines.join(" \\\n  ");
}
