import {randomBytes} from "node:crypto";
import {status} from "@grpc/grpc-js";
import {numReturned} from "./request.js";

/**
 * How long a call tries again after UNAVAILABLE, RESOURCE_EXHAUSTED and a CANCELLED that the caller did not ask for, which
 * is what a server does to calls as it shuts down; other statuses are final, and so is one with a reason. The pause is what the server says, else it
 * doubles from first to longest, with a random part so that clients do not come back together.
 */
export const defaultRetry = {connectForMs: 5000, resumeForMs: 60000, firstPauseMs: 50, longestPauseMs: 2000};

const again = new Set([status.UNAVAILABLE, status.RESOURCE_EXHAUSTED, status.CANCELLED]);

/** The attempts of one call. No I/O: what comes next follows from what has happened. */
export class Attempts {
  constructor(policy, clock = () => performance.now()) {
    this.policy = policy;
    this.clock = clock;
    this.hasBegun = false;
    this.noteNothingFails();
  }

  noteNothingFails() {
    this.failingSince = undefined;
    this.pause = this.policy.firstPauseMs;
  }

  noteProgress() {
    this.hasBegun = true;
    this.noteNothingFails();
  }

  /** Milliseconds to wait before the next attempt; throws the error where there is to be none. */
  pauseAfter(error) {
    const now = this.clock();
    this.failingSince ??= now;
    const patient = this.hasBegun || error.code === status.RESOURCE_EXHAUSTED;
    const limit = patient ? this.policy.resumeForMs : this.policy.connectForMs;
    let pause = error.retryAfterMs;
    if (pause === undefined) {
      pause = this.pause * (0.5 + Math.random() / 2);
      this.pause = Math.min(2 * this.pause, this.policy.longestPauseMs);
    }
    if (!again.has(error.code) || error.reason !== undefined || now + pause - this.failingSince > limit) throw error;
    return pause;
  }
}

/** The request of a stream, which grows by the tokens that came, so that another attempt goes on after them. */
export class Resumption {
  constructor(request) {
    // The server's own seed would differ from attempt to attempt.
    const sampling = {seed: randomBytes(8).readBigUInt64LE().toString(), ...request.sampling};
    this.request = {...request, sampling};
    this.begun = (request.resume?.length ?? 0) > 0;
    this.tokens = this.begun ? request.resume.map((r) => ({tokenIds: [...(r.tokenIds ?? [])]}))
      : Array.from({length: numReturned(request)}, () => ({tokenIds: []}));
  }

  note(chunk) {
    this.begun = true;
    this.tokens[chunk.sequence].tokenIds.push(...chunk.tokenIds);
  }

  next() {
    return this.begun ? {...this.request, resume: this.tokens} : this.request;
  }
}
