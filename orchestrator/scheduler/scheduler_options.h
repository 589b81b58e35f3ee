// Options of the scheduler. Plain values.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "orchestrator/kv_cache/prefix_index.h"
#include "orchestrator/scheduler/draft_source.h"
#include "orchestrator/scheduler/tenant_policy.h"

namespace sluice {

class Tenants;

struct SchedulerOptions {
  int32_t max_tokens_per_step = 512;    // over all segments; longer prompts are computed in chunks
  int32_t max_sequences_per_step = 64;  // segments in a step
  // Limits of the queue: sequences, and the tokens that they have together (mostly prompts). Add
  // refuses beyond them. Twice as much for a tenant that has no more than its share of the queue.
  int32_t max_queued_sequences = 1024;
  int32_t max_queued_tokens = 1 << 22;
  int32_t max_positions = 0;  // the model's context: prompt and new tokens together
  // As many as the pipeline has stages keeps all of them busy; decodes are split evenly over them.
  int32_t max_inflight_steps = 1;
  // Further steps that may be in flight, with sequences that are in flight already: with tokens
  // that are not known yet, or with the next chunk of a prompt. At most 63.
  int32_t steps_ahead = 0;
  // Adapters that running sequences have at a time, at most; 0: sequences have none.
  int32_t num_adapter_slots = 0;
  // For models whose keys depend on the length of their sequence: the largest length whose keys are
  // those of `length`. Lengths for which it differs cannot use each other's keys. Empty: all
  // lengths have the same keys.
  std::function<int32_t(int32_t length)> rope_length_class;
  // The tenants' accounts, which the schedulers of one engine share. Borrowed; null: the scheduler
  // has its own, with `tenant_policies`.
  Tenants* tenants = nullptr;
  // What tenants are granted; read at every Add and Plan, so that it may change. Empty or null: all
  // tenants alike, without limits. Sequences that run or wait stay when a limit falls below them.
  TenantPolicySource tenant_policies;
  // Borrowed; null: nothing is drafted.
  DraftSource* drafts = nullptr;
  // Hears which blocks the KV cache knows by their tokens. Borrowed; null: nobody does.
  KvRecorder* kv_recorder = nullptr;
  // Of the model's configuration (ModelIdentity::fingerprint): a part of the keys of blocks.
  std::string model_fingerprint;

  // Running sequences, which hold blocks: enough to fill every step in flight.
  int64_t num_slots() const { return int64_t{max_sequences_per_step} * max_inflight_steps; }
  // Keys computed at one length are those of the other.
  bool ShareKeys(int32_t length, int32_t other_length) const {
    return !rope_length_class || rope_length_class(length) == rope_length_class(other_length);
  }
  // Whose computed blocks a sequence of `length` tokens may use.
  PrefixDomain DomainOf(const std::string& salt, const std::string& adapter, int32_t length) const {
    return {.salt = salt,
            .adapter = adapter,
            .length_like = rope_length_class ? rope_length_class(length) : 0};
  }
};

// OK, or INVALID_ARGUMENT naming the field and its value; every field is at least 1.
absl::Status Validate(const SchedulerOptions& options);

}  // namespace sluice
