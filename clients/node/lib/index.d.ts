/** Client of Sluice, a server of language models. Streams go on by themselves where a connection or a server is lost. */

/** PEM texts. Without an authority that of Node.js is taken; certificate and key where servers ask for one. */
export interface Tls {
  authority?: Buffer;
  certificate?: Buffer;
  key?: Buffer;
}

/** How long a call tries again after UNAVAILABLE, RESOURCE_EXHAUSTED and a CANCELLED it did not ask for; others are final. */
export interface RetryPolicy {
  /** A call that has had no answer yet, while no server can be reached. Default 5,000. */
  connectForMs?: number;
  /** A stream that has begun; a call that a busy server puts off. Default 60,000. */
  resumeForMs?: number;
  /** Where the server says nothing the pause doubles from this... Default 50. */
  firstPauseMs?: number;
  /** ...to this. Default 2,000. */
  longestPauseMs?: number;
}

export const noRetry: RetryPolicy;

export interface ClientOptions {
  tls?: Tls;
  /** Bearer token that says who calls. */
  token?: string;
  /** What a call may take unless it says otherwise: DEADLINE_EXCEEDED. Default: as long as it takes. */
  timeoutMs?: number;
  retry?: RetryPolicy;
}

export interface CallOptions {
  timeoutMs?: number;
  /** Ends the call: the server stops. The call throws the signal's reason. */
  signal?: AbortSignal;
}

export interface Message {
  role: string;
  content: string;
  extraJson?: string;
}

/** A text, token ids as they are, or the turns of a conversation. */
export type Prompt = string | readonly number[] | readonly Message[];

export type EarlyStopping = "EARLY_STOPPING_HEURISTIC" | "EARLY_STOPPING_AT_ONCE" | "EARLY_STOPPING_NEVER";

/** By the names of generation.proto and sampling.proto, which explain them. */
export interface GenerateOptions extends CallOptions {
  prompt: Prompt;
  maxTokens?: number;
  n?: number;
  bestOf?: number;
  logprobs?: number;
  promptLogprobs?: number;
  badWords?: string[];
  dryBreakers?: string[];
  beams?: {beamWidth: number; numReturn?: number; lengthPenalty?: number; earlyStopping?: EarlyStopping; stochastic?: boolean};
  processedLogprobs?: boolean;
  priority?: number;
  adapter?: string;
  requestId?: string;
  cacheSalt?: string;
  declinePrefixCache?: boolean;
  stop?: string | string[];
  stopTokenIds?: number[];
  ignoreEos?: boolean;
  includeStopString?: boolean;
  toolsJson?: string;
  templateName?: string;
  variablesJson?: string;
  addGenerationPrompt?: boolean;
  temperature?: number;
  topK?: number;
  topP?: number;
  seed?: number | bigint | string;
  minP?: number;
  typicalP?: number;
  topNSigma?: number;
  xtcProbability?: number;
  xtcThreshold?: number;
  dynatempRange?: number;
  dynatempExponent?: number;
  allowedTokenIds?: number[];
  bannedTokenIds?: number[];
  logitBias?: Record<number, number>;
  badWordsIds?: number[][];
  minTokens?: number;
  noRepeatNgramSize?: number;
  repetitionPenalty?: number;
  presencePenalty?: number;
  frequencyPenalty?: number;
  dryMultiplier?: number;
  dryBase?: number;
  dryAllowedLength?: number;
  dryRange?: number;
  dryBreakerTokenIds?: number[];
  // What the text keeps, at most one of them: constraint.proto.
  // A text, an object, or what has toJSONSchema().
  jsonSchema?: string | object;
  anyJson?: boolean;
  regex?: string;
  grammar?: string;
  choices?: string[];
}

export interface TokenLogprob {
  tokenId: number;
  logprob: number;
}

export interface PositionLogprobs {
  logprob: number;
  top: TokenLogprob[];
}

export interface Chunk {
  sequence: number;
  text: string;
  tokenIds: number[];
  logprobs: PositionLogprobs[];
}

export interface FinishedSequence {
  sequence: number;
  /** Such as "FINISH_REASON_STOP_STRING". */
  reason: string;
  stopString: string;
  stopTokenId?: number;
  numTokens: number;
  lengthLimit: string;
}

export interface Finished {
  sequences: FinishedSequence[];
  usage: {
    numPromptTokens: number;
    numGeneratedTokens: number;
    numSharedPromptTokens: number;
    numCachedPromptTokens: number;
  };
  requestId: string;
  /** 64 bits, as decimal digits. */
  seed: string;
}

/** What a model writes. Leaving the loop ends the call: the server stops. */
export class Stream implements AsyncIterable<Chunk> {
  /** After the end. */
  readonly finished?: Finished;
  close(): void;
  [Symbol.asyncIterator](): AsyncIterator<Chunk>;
}

export interface Score {
  tokenIds: number[];
  /** One entry fewer than tokenIds. */
  logprobs: PositionLogprobs[];
  meanNll: number;
  perplexity: number;
  /** Of the text under the model, given its first token. */
  sumLogprob: number;
}

export interface Model {
  name: string;
  architecture: string;
  vocabularySize: number;
  maxPositions: number;
  numLayers: number;
  hiddenSize: number;
  weights: string;
  hasTokenizer: boolean;
  hasChatTemplate: boolean;
  eosTokenIds: number[];
}

/** What a call that failed ends with: gRPC's status. */
export class SluiceError extends Error {
  /** gRPC's number, such as 3, and name, such as "INVALID_ARGUMENT". */
  readonly code: number;
  readonly codeName: string;
  /** The server's words, which name field, value and what is accepted. */
  readonly details: string;
  /** After how long the server asks to come again, where it says so. */
  readonly retryAfterMs?: number;
  /** Why the server would refuse the same request again, such as "REQUEST_WORK_EXCEEDED", where it says so. */
  readonly reason?: string;
}

/** Calls a server, or several that serve the same model: the next is taken where one is lost. */
export class Client {
  /** "HOST:PORT", several by comma or as an array. Default: "127.0.0.1:8700". */
  constructor(endpoints?: string | string[], options?: ClientOptions);
  close(): void;
  /** Streams what follows a prompt. */
  generate(options: GenerateOptions): Stream;
  /** The same for a GenerateRequest of your own, in the names of JSON. */
  send(request: object, options?: CallOptions): Stream;
  /** The whole text of the first sequence. */
  text(options: GenerateOptions): Promise<string>;
  /** The whole texts of all n sequences. */
  texts(options: GenerateOptions): Promise<string[]>;
  /** What the assistant says next. */
  chat(messages: readonly Message[], options?: Omit<GenerateOptions, "prompt">): Promise<string>;
  /** The log-probability of every token of a text. */
  /** The embedding of each text, or a classifier's scores. */
  embed(texts: readonly (string | readonly number[])[], options?: CallOptions & {
    promptName?: string; dimensions?: number; truncateTokens?: number; priority?: number;
  }): Promise<number[][]>;
  /** How well each document answers the query; larger is better. */
  rerank(query: string, documents: readonly string[], options?: CallOptions & {
    instruction?: string; truncateTokens?: number; priority?: number;
  }): Promise<number[]>;
  score(prompt: string | readonly number[], options?: CallOptions & {top?: number; priority?: number; adapter?: string}): Promise<Score>;
  /** The same of up to 128 texts; what they begin with in common is computed once. */
  scores(prompts: readonly (string | readonly number[])[],
      options?: CallOptions & {top?: number; priority?: number; adapter?: string}): Promise<Score[]>;
  tokenize(text: string, options?: CallOptions & {addSpecialTokens?: boolean}): Promise<number[]>;
  detokenize(tokenIds: readonly number[], options?: CallOptions): Promise<string>;
  model(options?: CallOptions): Promise<Model>;
  status(options?: CallOptions): Promise<{serving: boolean} & Record<string, unknown>>;
}

/** The GenerateRequest that options make. */
export function makeRequest(options: GenerateOptions): object;
