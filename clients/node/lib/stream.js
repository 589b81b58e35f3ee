import {status} from "@grpc/grpc-js";
import {SluiceError} from "./errors.js";
import {Attempts, Resumption} from "./retry.js";

/** Waits; throws the error at once where the deadline comes first, or the signal's reason where that is aborted. */
export async function wait(pauseMs, deadline, signal, error) {
  if (deadline !== undefined && Date.now() + pauseMs >= deadline) throw error;
  signal?.throwIfAborted();
  await new Promise((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, pauseMs);
    signal?.addEventListener("abort", onAbort, {once: true});
  });
}

/**
 * What a model writes, for `for await`: chunks. Going on where a connection was lost is its own business. After its end
 * `finished` says how each sequence ended. Leaving the loop ends the call: the server stops.
 */
export class Stream {
  constructor(stubs, request, policy, deadline, signal) {
    this.finished = undefined;
    this.stubs = stubs;
    this.resumption = new Resumption(request);
    this.attempts = new Attempts(policy);
    this.deadline = deadline;
    this.signal = signal;
  }

  async *[Symbol.asyncIterator]() {
    const onAbort = () => this.close();
    this.signal?.throwIfAborted();
    this.signal?.addEventListener("abort", onAbort, {once: true});
    try {
      while (!this.finished && !this.closed) yield* this.attempt();
    } finally {
      this.signal?.removeEventListener("abort", onAbort);
      this.close();
    }
    this.signal?.throwIfAborted();
  }

  /** Ends the call early. */
  close() {
    this.closed = true;
    this.call?.cancel();
  }

  async *attempt() {
    const stub = this.stubs.current;
    this.call = stub.generate(this.resumption.next(), this.stubs.metadata, {deadline: this.deadline});
    try {
      for await (const event of this.call) {
        this.attempts.noteProgress();
        if (event.finished) {
          this.finished = event.finished;
          return;
        }
        this.resumption.note(event.chunk);
        yield event.chunk;
      }
      if (!this.closed) throw new SluiceError(status.INTERNAL, "the stream ended before its last event");
    } catch (failure) {
      if (this.closed) return;
      const error = SluiceError.from(failure);
      await wait(this.attempts.pauseAfter(error), this.deadline, this.signal, error);
      this.stubs.leave(stub);
    }
  }
}
