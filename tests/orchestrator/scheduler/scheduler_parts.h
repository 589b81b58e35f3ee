// The parts of a scheduler put together for tests of one of them.
#pragma once

#include <optional>
#include <utility>

#include "orchestrator/scheduler/admission_queue.h"
#include "orchestrator/scheduler/block_budget.h"
#include "orchestrator/scheduler/state_table.h"
#include "orchestrator/scheduler/step_builder.h"
#include "orchestrator/scheduler/steps_in_flight.h"
#include "tests/orchestrator/scheduler/testing.h"

namespace sluice {

struct SchedulerParts {
  SchedulerParts(const SchedulerOptions& given, const KvCacheOptions& kv_options)
      : options(given), kv_cache(kv_options) {}

  // A sequence that is in no list yet.
  SequenceState& NewSequence(SequenceSpec spec) {
    const uint64_t serial = table.TakeSerial();
    const QueuePosition position = {
        .negated_priority = -int64_t{spec.priority}, .arrival = serial, .serial = serial};
    return table.Add(std::move(spec), position, table.queue().least_served());
  }
  SequenceState& Enqueue(SequenceSpec spec) {
    SequenceState& sequence = NewSequence(std::move(spec));
    table.Enqueue(sequence);
    return sequence;
  }
  // In the step that has begun, or in one of its own.
  void Fly(SequenceState& sequence, int num_positions) {
    flights.Begin(1);
    Segment segment = {.sequence = sequence.spec.id, .first_position = sequence.num_planned};
    segment.tokens.assign(num_positions, 1);
    sequence.AddRowsFor(segment.first_position, num_positions, segment.rows);
    flights.Add(sequence, segment, {});
    flights.Complete();
  }

  const SchedulerOptions options;
  KvCache kv_cache;
  Tenants tenants{options.tenant_policies};
  StateTable table{options.num_slots(), tenants};
  StepsInFlight flights;
  AdmissionQueue admission{options, tenants, table};
  BlockBudget budget{options, kv_cache, table, flights, admission};
};

// Four slots and ten blocks of four positions, unless a test says otherwise.
class PartsTest : public ::testing::Test {
 protected:
  SchedulerOptions options_ = {.max_sequences_per_step = 4, .max_positions = 1000};
  KvCacheOptions kv_cache_ = {.num_blocks = 10, .block_size = 4};

  SchedulerParts& parts() {
    if (!parts_.has_value()) parts_.emplace(options_, kv_cache_);
    return *parts_;
  }

 private:
  std::optional<SchedulerParts> parts_;
};

}  // namespace sluice
