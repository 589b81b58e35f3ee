const samplingNames = new Set(["temperature", "topK", "topP", "seed", "minP", "typicalP", "topNSigma", "xtcProbability",
  "xtcThreshold", "dynatempRange", "dynatempExponent", "allowedTokenIds", "bannedTokenIds", "logitBias", "minTokens",
  "noRepeatNgramSize", "repetitionPenalty", "presencePenalty", "frequencyPenalty", "dryMultiplier", "dryBase",
  "dryAllowedLength", "dryRange", "dryBreakerTokenIds"]);
const stopNames = new Set(["stopTokenIds", "ignoreEos", "includeStopString"]);
const chatNames = new Set(["toolsJson", "templateName", "variablesJson", "addGenerationPrompt"]);
const constraintNames = new Set(["jsonSchema", "anyJson", "regex", "grammar", "choices"]);
const requestNames = new Set(["maxTokens", "n", "bestOf", "logprobs", "promptLogprobs", "badWords", "dryBreakers", "beams", "priority",
  "requestId", "cacheSalt", "adapter", "declinePrefixCache"]);

/** How many sequences a request returns. */
export function numReturned({n, beams}) {
  if (!beams) return Math.max(1, n ?? 1);
  return beams.numReturn ?? (beams.stochastic ? beams.beamWidth : 1);
}

function promptOf(prompt) {
  if (typeof prompt === "string") return {text: prompt};
  if (typeof prompt[0] === "object") return {chat: {messages: prompt}};
  return {tokenIds: {tokenIds: [...prompt]}};
}

// Of a text, an object, or what has toJSONSchema(), such as a schema of Zod 4 or ArkType.
function schemaText(schema) {
  if (typeof schema === "string") return schema;
  return JSON.stringify(typeof schema.toJSONSchema === "function" ? schema.toJSONSchema() : schema);
}

/** A GenerateRequest of options as index.d.ts names them. */
export function makeRequest({prompt, signal, timeoutMs, ...options}) {
  const request = {...promptOf(prompt), sampling: {}, stop: {}};
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue;
    if (name === "stop") request.stop.stopStrings = typeof value === "string" ? [value] : value;
    else if (name === "badWordsIds") request.sampling.badWordsIds = value.map((tokenIds) => ({tokenIds}));
    else if (name === "processedLogprobs") request.logprobsMode = value ? "LOGPROBS_MODE_PROCESSED" : "LOGPROBS_MODE_RAW";
    else if (name === "seed") request.sampling.seed = String(value);
    else if (samplingNames.has(name)) request.sampling[name] = value;
    else if (stopNames.has(name)) request.stop[name] = value;
    else if (requestNames.has(name)) request[name] = value;
    else if (name === "jsonSchema") request.constraint = {...request.constraint, jsonSchema: schemaText(value)};
    else if (constraintNames.has(name)) request.constraint = {...request.constraint, [name]: value};
    else if (chatNames.has(name) && request.chat) request.chat[name] = value;
    else throw new TypeError(chatNames.has(name) ? `${name} is for conversations; the prompt is none` : `unknown option ${name}`);
  }
  return request;
}
