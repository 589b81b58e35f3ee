// Reads an ExportTraceServiceRequest with the messages that OpenTelemetry itself publishes, and prints its spans as JSON.
import { readFileSync } from 'node:fs';
import root from '@opentelemetry/otlp-transformer/build/src/generated/root.js';

const Request = root.opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
const bytes = readFileSync(process.argv[2]);
const request = Request.decode(bytes);
const valid = Request.verify(request);
if (valid !== null) throw new Error(valid);

const hex = (value) => Buffer.from(value ?? []).toString('hex');
const text = (value) => value.stringValue ?? value.boolValue ?? (value.intValue != null ? Number(value.intValue) : undefined) ??
  value.doubleValue ?? value.arrayValue?.values.map(text);
const spans = request.resourceSpans.flatMap((said) => said.scopeSpans.flatMap((scope) => scope.spans)).map((span) => ({
  name: span.name,
  traceId: hex(span.traceId),
  spanId: hex(span.spanId),
  parentSpanId: hex(span.parentSpanId),
  endTimeUnixNano: String(span.endTimeUnixNano),
  attributes: Object.fromEntries(span.attributes.map(({ key, value }) => [key, text(value)])),
}));
// What these messages do not know is left out when they are written again.
console.log(JSON.stringify({ spans, unknownBytes: bytes.length - Request.encode(request).finish().length }));
