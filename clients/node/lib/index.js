import {Stubs} from "./connection.js";
import {SluiceError} from "./errors.js";
import {makeRequest, numReturned} from "./request.js";
import {Attempts, defaultRetry} from "./retry.js";
import {Stream, wait} from "./stream.js";

export {SluiceError, Stream, makeRequest};
export const noRetry = {...defaultRetry, connectForMs: 0, resumeForMs: 0};

const inputOf = (prompt) => (typeof prompt === "string" ? {text: prompt} : {tokenIds: {tokenIds: [...prompt]}});

/** See index.d.ts. */
export class Client {
  constructor(endpoints = "127.0.0.1:8700", {tls, token, timeoutMs, retry} = {}) {
    this.stubs = new Stubs(endpoints, tls, token);
    this.timeoutMs = timeoutMs;
    this.retry = {...defaultRetry, ...retry};
  }

  close() {
    this.stubs.close();
  }

  generate(options) {
    return this.send(makeRequest(options), options);
  }

  send(request, {timeoutMs, signal} = {}) {
    return new Stream(this.stubs, request, this.retry, this.deadlineOf(timeoutMs), signal);
  }

  async texts(options) {
    const texts = Array.from({length: numReturned(options)}, () => "");
    for await (const chunk of this.generate(options)) texts[chunk.sequence] += chunk.text;
    return texts;
  }

  async text(options) {
    return (await this.texts(options))[0];
  }

  chat(messages, options = {}) {
    return this.text({...options, prompt: messages});
  }

  score(prompt, {top = 0, priority = 0, adapter = "", ...call} = {}) {
    return this.unary("score", {...inputOf(prompt), top, priority, adapter}, call);
  }

  async scores(prompts, {top = 0, priority = 0, adapter = "", ...call} = {}) {
    return (await this.unary("score", {inputs: prompts.map(inputOf), top, priority, adapter}, call)).scores;
  }

  async embed(texts, {promptName, dimensions, truncateTokens, priority = 0, ...call} = {}) {
    const request = {inputs: texts.map(inputOf), promptName, dimensions, truncateTokens, priority};
    return (await this.unary("embed", request, call)).embeddings.map(({values}) => values);
  }

  async rerank(query, documents, {instruction = "", truncateTokens, priority = 0, ...call} = {}) {
    return (await this.unary("rerank", {query, documents, instruction, truncateTokens, priority}, call)).scores;
  }

  async tokenize(text, {addSpecialTokens = true, ...call} = {}) {
    return (await this.unary("tokenize", {text: Buffer.from(text), addSpecialTokens}, call)).tokenIds;
  }

  async detokenize(tokenIds, call = {}) {
    return (await this.unary("detokenize", {tokenIds: [...tokenIds]}, call)).text;
  }

  model(call = {}) {
    return this.unary("getModel", {}, call);
  }

  status(call = {}) {
    return this.unary("getStatus", {}, call);
  }

  deadlineOf(timeoutMs = this.timeoutMs) {
    return timeoutMs === undefined ? undefined : Date.now() + timeoutMs;
  }

  async unary(method, request, {timeoutMs, signal}) {
    const deadline = this.deadlineOf(timeoutMs);
    const attempts = new Attempts(this.retry);
    for (;;) {
      const stub = this.stubs.current;
      try {
        return await this.once(stub, method, request, deadline, signal);
      } catch (failure) {
        signal?.throwIfAborted();
        const error = SluiceError.from(failure);
        await wait(attempts.pauseAfter(error), deadline, signal, error);
        this.stubs.leave(stub);
      }
    }
  }

  once(stub, method, request, deadline, signal) {
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const call = stub[method](request, this.stubs.metadata, {deadline}, (error, response) => {
        signal?.removeEventListener("abort", onAbort);
        if (error) reject(error);
        else resolve(response);
      });
      const onAbort = () => call.cancel();
      signal?.addEventListener("abort", onAbort, {once: true});
    });
  }
}
