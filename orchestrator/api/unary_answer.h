// The answer to a unary call that several threads may come to give: given once, and reported to the
// tracer. Thread-safe. Outlives its call.
#pragma once

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "orchestrator/api/unary_call.h"
#include "orchestrator/tracing/request_tracer.h"

namespace sluice {

template <class Response>
class UnaryAnswer {
 public:
  // `tracer` may be null.
  UnaryAnswer(UnaryCall* call, CallTrace trace, const RequestTracer* tracer)
      : call_(call), trace_(std::move(trace)), tracer_(tracer) {}

  // All but the first are dropped.
  void Give(const absl::StatusOr<Response>& answer) {
    absl::MutexLock lock(&mutex_);
    if (call_ == nullptr) return;
    if (tracer_ != nullptr) tracer_->End(trace_, answer.status());
    std::exchange(call_, nullptr)->Answer(answer);
  }

 private:
  absl::Mutex mutex_;
  UnaryCall* call_ ABSL_GUARDED_BY(mutex_);  // until it is answered
  const CallTrace trace_;
  const RequestTracer* const tracer_;
};

}  // namespace sluice
