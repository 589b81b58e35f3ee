// What requests have, have used, and how they ended: what status and logs say of them. Plain
// values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "orchestrator/scheduler/sequence.h"
#include "services/common/steady_time.h"
#include "services/telemetry/span.h"

namespace sluice {

// What happened to a request besides its phases.
struct RequestEvent {
  enum class Kind { kPreempted, kReplicaLost, kReplicaBack };

  Kind kind = Kind::kPreempted;
  SteadyTime time;
};

enum class RequestPhase { kWaiting, kRunning, kPaused, kEnded };

struct SequenceLedger {
  RequestPhase phase = RequestPhase::kWaiting;
  SequenceUsage usage;
  SequenceBlocks blocks;
};

struct RequestTimes {
  std::optional<SteadyTime> arrived;      // at the server
  std::optional<SteadyTime> started;      // the first step that computes some of it was sent
  std::optional<SteadyTime> first_token;  // was accepted
  std::optional<SteadyTime> ended;
};

struct RequestLedger {
  std::string name;                  // the client's request_id
  std::string trace_id;              // empty: none
  std::shared_ptr<const Span> span;  // as it began; null: no tracing
  bool scores = false;               // its prompt, and generates nothing
  std::string tenant;
  int32_t priority = 0;
  RequestPhase phase = RequestPhase::kWaiting;
  std::string outcome;  // of one that ended: "ok", "cancelled", "deadline_exceeded", ...
  std::string detail;   // "stop_token,length", or the status's message
  RequestTimes times;
  std::vector<RequestEvent> events;  // in order, the first of them
  uint32_t num_dropped_events = 0;   // those that came after
  std::vector<SequenceLedger> sequences;

  // Over all sequences, its prompt counted once.
  int32_t num_prompt_tokens() const;
  int64_t num_generated_tokens() const;
  int32_t num_cached_prompt_tokens() const;
};

// Selects which requests to report.
struct LedgerQuery {
  bool all = false;                   // those being served
  std::string name;                   // also those of this name that ended of late; "": none
  std::optional<std::string> tenant;  // of this one alone
};

struct TenantLedger {
  std::string name;
  int32_t num_running = 0;
  int32_t num_waiting = 0;
  double served = 0;  // priced tokens by weight
};

struct LedgerReport {
  SteadyTime now;
  std::vector<RequestLedger> requests;  // in order of arrival; those that ended last
  std::vector<TenantLedger> tenants;    // with requests, the busiest first, 64 at most
};

}  // namespace sluice
