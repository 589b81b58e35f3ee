// Tells a collector of every request, where one is named. Thread-safe; what EngineObserver has
// is called on the engine's loop.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "orchestrator/engine/observer.h"
#include "services/common/trace_context.h"
#include "services/telemetry/span.h"
#include "services/telemetry/tracer.h"

namespace sluice {

// The trace that a call is a part of, and its span there.
struct CallTrace {
  std::string trace_id;        // empty: none
  std::shared_ptr<Span> span;  // null: it is not recorded
};

class RequestTracer final : public EngineObserver {
 public:
  // Borrows `tracer`, which is null where no collector is named. `model` is what clients know it by.
  RequestTracer(Tracer* tracer, std::string model) : tracer_(tracer), model_(std::move(model)) {}

  // A call of `method` ("Generate") begins on behalf of `caller`. `operation` is the conventions'
  // gen_ai.operation.name.
  CallTrace Begin(const std::optional<TraceContext>& caller, std::string method,
                  std::string operation) const;

  // It has ended, and nothing of it is in the engine: it was refused before, or its span is about
  // more than what the engine had of it.
  void End(const CallTrace& trace, const absl::Status& status) const;

  void OnStep(absl::Duration, int, int) override {}
  void OnRequestEnded(const RequestLedger& ended) override;

 private:
  Tracer* const tracer_;
  const std::string model_;
};

}  // namespace sluice
