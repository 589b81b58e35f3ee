// A field for every option of sampling that has none of its own in the form, as the server lists them, and the
// explanation of each.
import {addHelp} from "/page/help.js";

const readers = {
  number: Number,
  integer: Number,
  ids: (text) => text.split(",").map(Number),
  lists: (text) => text.split(";").map((list) => list.split(",").map(Number)),
  biases: (text) => Object.fromEntries(text.split(",").map((pair) => pair.split("=")).map(([id, bias]) => [id.trim(), Number(bias)])),
};
const hints = {ids: "1,2,3", lists: "1,2;3", biases: "15=-2.5"};
const fields = [];  // {name, kind, input}

const labelOf = (name) => `${name[0].toUpperCase()}${name.slice(1).replaceAll("_", " ")}`;

function addField(box, {name, kind, neutral, min, max}) {
  const input = document.createElement("input");
  const isNumber = kind === "number" || kind === "integer";
  input.id = name;
  input.type = isNumber ? "number" : "text";
  input.placeholder = isNumber ? neutral : hints[kind];
  if (isNumber) {
    input.min = min;
    if (max !== undefined) input.max = max;
    input.step = kind === "integer" ? 1 : "any";
  }
  const label = document.createElement("label");
  label.htmlFor = name;
  label.textContent = labelOf(name);
  const option = document.createElement("div");
  option.className = "option";
  option.append(label, input);
  box.append(option);
  fields.push({name, kind, input});
}

export async function showSamplingFields(box) {
  const options = await (await fetch("/page/sampling")).json();
  for (const option of options) {
    if (!document.getElementById(option.name)) addField(box, option);
    const field = document.getElementById(option.name).closest(".option");
    if (!field.dataset.help) addHelp(field, option.help);
  }
}

// What was filled in, by the names of the API.
export function samplingOptions() {
  const given = fields.filter(({input}) => input.value.trim() !== "");
  return Object.fromEntries(given.map(({name, kind, input}) => [name, readers[kind](input.value)]));
}
