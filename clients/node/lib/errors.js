import {status} from "@grpc/grpc-js";
import protobuf from "protobufjs/minimal.js";

/** What a call that failed ends with: gRPC's status. */
export class SluiceError extends Error {
  constructor(code, message, retryAfterMs, reason) {
    super(`${status[code]}: ${message}`);
    this.name = "SluiceError";
    this.code = code;
    this.codeName = status[code];
    this.details = message;
    this.retryAfterMs = retryAfterMs;
    this.reason = reason;
  }

  static from(error) {
    if (error instanceof SluiceError) return error;
    const [details] = error.metadata?.get("grpc-status-details-bin") ?? [];
    return new SluiceError(error.code ?? status.UNKNOWN, error.details ?? error.message, details && retryDelayMs(details),
      details && reasonOf(details));
  }
}

// The values of a field of any message: bytes or numbers.
function fields(message, number) {
  const reader = protobuf.Reader.create(message);
  const values = [];
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    if (tag >>> 3 !== number) reader.skipType(tag & 7);
    else values.push((tag & 7) === 2 ? reader.bytes() : reader.int32());
  }
  return values;
}

// From a google.rpc.Status (details: repeated Any = 3) what `read` makes of the message of a type.
function fromDetails(details, type, read) {
  try {
    for (const any of fields(details, 3)) {
      const [url] = fields(any, 1), [value] = fields(any, 2);
      if (new TextDecoder().decode(url).endsWith(`/google.rpc.${type}`)) return read(value);
    }
  } catch {
    // Details that can't be read say nothing; the status stands.
  }
  return undefined;
}

// Of the RetryInfo (retry_delay: Duration = 1).
function retryDelayMs(details) {
  return fromDetails(details, "RetryInfo", (value) => {
    const [delay] = fields(value, 1);
    return 1000 * (fields(delay, 1)[0] ?? 0) + (fields(delay, 2)[0] ?? 0) / 1e6;
  });
}

// Of the ErrorInfo (reason: string = 1).
function reasonOf(details) {
  return fromDetails(details, "ErrorInfo", (value) => new TextDecoder().decode(fields(value, 1)[0]) || undefined);
}
