// Sends spans to a collector: OTLP over gRPC. Who has a span to tell leaves it here and goes on; a
// thread collects what comes within a moment, sends it together, and tries again where the collector
// can't be reached. Where that takes too long spans are dropped, and counted: nothing waits for them.
//
// Thread-safe.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "opentelemetry/proto/collector/trace/v1/trace_service.grpc.pb.h"
#include "services/telemetry/span.h"

namespace sluice {

struct SpanExporterOptions {
  std::vector<SpanAttribute> resource;  // who speaks
  // Metadata of every call.
  std::vector<std::pair<std::string, std::string>> headers;
  // Of a bearer token, read again for every call; empty: none.
  std::string token_file;

  size_t max_queued = 8192;  // spans, those being sent apart
  size_t max_batch = 512;    // spans in a call
  absl::Duration batch_delay = absl::Seconds(1);
  absl::Duration call_timeout = absl::Seconds(10);
  // Pauses between attempts double from the first to the longest, give or take a quarter.
  absl::Duration first_pause = absl::Milliseconds(500);
  absl::Duration longest_pause = absl::Seconds(10);
  // After so long with no success a batch is dropped.
  absl::Duration retry_for = absl::Minutes(1);
  // What the destructor may take to send what is left.
  absl::Duration flush_timeout = absl::Milliseconds(500);
};

struct SpanCounts {
  uint64_t exported = 0;
  uint64_t dropped_full = 0;      // too many were waiting
  uint64_t dropped_failed = 0;    // the collector could not be reached, or answered with an error
  uint64_t dropped_rejected = 0;  // it took the others of their batch
};

class SpanExporter {
 public:
  SpanExporter(const std::shared_ptr<grpc::Channel>& channel, SpanExporterOptions options);
  // Sends what is left, for as long as it may.
  ~SpanExporter();

  // Never waits for the collector.
  void Export(std::vector<Span> spans);

  // Waits, at most so long, until everything that was left here so far was sent or dropped. False: it
  // was not.
  bool Flush(absl::Duration timeout);

  SpanCounts counts() const;

 private:
  using Request = opentelemetry::proto::collector::trace::v1::ExportTraceServiceRequest;
  using Response = opentelemetry::proto::collector::trace::v1::ExportTraceServiceResponse;

  void Run();
  // Empty at the end.
  std::vector<Span> NextBatch();
  void Send(const std::vector<Span>& batch);
  absl::Status Call(const Request& request, Response& response);
  absl::Status Prepare(grpc::ClientContext& context) const;
  // False: it is time to end.
  bool Pause(absl::Duration pause);
  void Count(size_t num_spans, const absl::Status& status, const Response& response);

  const SpanExporterOptions options_;
  const std::unique_ptr<opentelemetry::proto::collector::trace::v1::TraceService::Stub> stub_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by the mutex:
  std::deque<Span> queue_;
  SpanCounts counts_;
  int num_flushing_ = 0;  // callers who wait: no batch does
  bool sending_ = false;
  bool stopping_ = false;  // what is left is sent, and tried once
  bool giving_up_ = false;
  grpc::ClientContext* call_ = nullptr;  // under way
  // Of the thread alone:
  bool failing_ = false;  // the last batch was lost
  std::thread thread_;
};

}  // namespace sluice
