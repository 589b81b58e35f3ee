#include "orchestrator/metrics/engine_metrics.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "services/metrics/families.h"

namespace sluice {
namespace {

using Families = std::vector<prometheus::MetricFamily>;

double UsedPart(const KvCacheStatistics& cache) {
  return cache.total_blocks == 0 ? 0.0
                                 : static_cast<double>(cache.used_blocks) / cache.total_blocks;
}

double Waiting(const EngineStatus& status) {
  return status.target().scheduler.waiting_sequences + status.num_unadmitted_requests;
}

void AddEngine(const EngineStatus& status, Families& families) {
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    families.push_back(CounterFamily(name, help, {{static_cast<double>(value), {}}}));
  };
  families.push_back(GaugeFamily(
      "sluice_sequences",
      "Sequences by what they do: compute, wait for their turn, or for their client to read.",
      {{static_cast<double>(status.target().scheduler.running_sequences), {{"state", "running"}}},
       {Waiting(status), {{"state", "waiting"}}},
       {static_cast<double>(status.target().scheduler.paused_sequences), {{"state", "paused"}}}}));
  families.push_back(
      GaugeFamily("sluice_steps_in_flight", "Steps sent and not yet answered.",
                  {{static_cast<double>(status.target().scheduler.inflight_steps), {}}}));
  counter("sluice_steps_total", "Steps computed.", status.target().num_steps);
  counter("sluice_generated_tokens_total", "Tokens chosen.", status.num_generated_tokens);
  counter("sluice_recoveries_total", "Times that the replica was wired again after a loss.",
          status.target().num_recoveries);
  counter("sluice_hangs_total", "Steps given up because they took far too long.",
          status.target().num_hangs);
  counter("sluice_integrity_checks_total", "Times that the books were checked while nothing ran.",
          status.num_integrity_checks);
  counter("sluice_integrity_faults_total", "Times that the books of blocks were found wrong.",
          status.num_integrity_faults);
  families.push_back(GaugeFamily("sluice_replica_epoch", "Incarnation of the replica's wiring.",
                                 {{static_cast<double>(status.target().epoch), {}}}));
}

// What became of positions and blocks, ever.
void AddLedger(const SchedulerStatistics& scheduler, Families& families) {
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    families.push_back(CounterFamily(name, help, {{static_cast<double>(value), {}}}));
  };
  counter("sluice_computed_positions_total", "Positions computed.", scheduler.computed_positions);
  counter("sluice_kv_hit_positions_total", "Positions found in the prefix cache, not computed.",
          scheduler.kv_cache.hit_positions);
  counter("sluice_kv_queried_positions_total",
          "Positions looked for in the prefix cache, found or not.",
          scheduler.kv_cache.queried_positions);
  counter("sluice_kv_copied_blocks_total", "Blocks copied before a sequence wrote into them.",
          scheduler.kv_cache.copied_blocks);
  counter("sluice_kv_evicted_blocks_total", "Cached blocks that gave way.",
          scheduler.kv_cache.evicted_blocks);
  counter("sluice_preemptions_total", "Times that a sequence gave its blocks to another.",
          scheduler.preemptions);
  counter("sluice_drafted_tokens_total", "Tokens computed before the model had chosen.",
          scheduler.drafted_tokens);
  counter("sluice_accepted_draft_tokens_total", "Of them, those that it chose.",
          scheduler.accepted_drafts);
  const RecomputedPositions& again = scheduler.recomputed;
  families.push_back(
      CounterFamily("sluice_recomputed_positions_total", "Positions computed once more, by why.",
                    {{static_cast<double>(again.after_preemption), {{"cause", "preemption"}}},
                     {static_cast<double>(again.after_loss), {{"cause", "loss"}}},
                     {static_cast<double>(again.after_growth), {{"cause", "growth"}}},
                     {static_cast<double>(again.after_pause), {{"cause", "pause"}}}}));
}

void AddCache(const KvCacheStatistics& cache, Families& families) {
  families.push_back(GaugeFamily("sluice_kv_blocks", "Blocks of the KV cache.",
                                 {{static_cast<double>(cache.used_blocks), {{"state", "used"}}},
                                  {static_cast<double>(cache.cached_blocks), {{"state", "cached"}}},
                                  {static_cast<double>(cache.free_blocks), {{"state", "free"}}}}));
  if (cache.total_states > 0) {
    const int32_t free = cache.total_states - cache.used_states - cache.cached_states;
    families.push_back(
        GaugeFamily("sluice_kv_states", "Slots for the states of recurrent layers.",
                    {{static_cast<double>(cache.used_states), {{"state", "used"}}},
                     {static_cast<double>(cache.cached_states), {{"state", "cached"}}},
                     {static_cast<double>(free), {{"state", "free"}}}}));
  }
  families.push_back(GaugeFamily("sluice_kv_shared_blocks",
                                 "Used blocks that several sequences share.",
                                 {{static_cast<double>(cache.shared_blocks), {}}}));
  families.push_back(GaugeFamily("sluice_kv_block_positions", "Positions that one block holds.",
                                 {{static_cast<double>(cache.block_size), {}}}));
  families.push_back(GaugeFamily("sluice_kv_usage_ratio", "Used part of the KV cache, 0 to 1.",
                                 {{UsedPart(cache), {}}}));
}

void AddDraftModel(const RunnerStatus& model, uint64_t num_proposed, Families& families) {
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    families.push_back(CounterFamily(name, help, {{static_cast<double>(value), {}}}));
  };
  const KvCacheStatistics& cache = model.scheduler.kv_cache;
  families.push_back(GaugeFamily("sluice_draft_model_ready",
                                 "1 while the draft model's processes are wired.",
                                 {{model.ready ? 1.0 : 0.0, {}}}));
  counter("sluice_draft_model_steps_total", "Steps of the draft model.", model.num_steps);
  counter("sluice_draft_model_tokens_total", "Tokens that the draft model proposed.", num_proposed);
  counter("sluice_draft_model_recoveries_total",
          "Times that the draft model was wired again after a loss.", model.num_recoveries);
  families.push_back(GaugeFamily("sluice_draft_model_kv_blocks",
                                 "Blocks of the draft model's KV cache.",
                                 {{static_cast<double>(cache.used_blocks), {{"state", "used"}}},
                                  {static_cast<double>(cache.cached_blocks), {{"state", "cached"}}},
                                  {static_cast<double>(cache.free_blocks), {{"state", "free"}}}}));
}

// A pipeline has few processes: their labels stay few.
void AddProcesses(const EngineStatus& status, Families& families) {
  std::vector<MetricSample> ready;
  std::vector<MetricSample> weights;
  std::vector<MetricSample> keys_and_values;
  for (const RunnerStatus& runner : status.runners) {
    for (const ReplicaProcess& process : *runner.processes) {
      const MetricLabels labels = {{"service", ServiceName(runner.role, process.service())},
                                   {"stage", absl::StrCat(process.stage)},
                                   {"rank", absl::StrCat(process.rank)}};
      ready.push_back({process.ready ? 1.0 : 0.0, labels});
      weights.push_back({static_cast<double>(process.weight_bytes), labels});
      if (process.kv_bytes == 0) continue;
      keys_and_values.push_back({static_cast<double>(process.kv_bytes), labels});
    }
  }
  families.push_back(
      GaugeFamily("sluice_process_ready", "1 while the process is wired into the replica.", ready));
  families.push_back(
      GaugeFamily("sluice_weight_bytes", "Weights that the process holds.", weights));
  families.push_back(GaugeFamily("sluice_kv_bytes", "Its part of the KV cache.", keys_and_values));
}

// What part of its time at work a shard waits is rate(gap) / (rate(busy) + rate(gap)); gap_computed in
// place of the upper gap: for other stages to compute, the sampler's head above all.
void AddShardTimes(const std::vector<ReplicaProcess>& processes, Families& families) {
  std::vector<MetricSample> busy;
  std::vector<MetricSample> gap;
  std::vector<MetricSample> gap_computed;
  for (const ReplicaProcess& process : processes) {
    if (process.role != Role::kShard) continue;
    const MetricLabels labels = {{"stage", absl::StrCat(process.stage)},
                                 {"rank", absl::StrCat(process.rank)}};
    busy.push_back({absl::ToDoubleSeconds(process.busy), labels});
    gap.push_back({absl::ToDoubleSeconds(process.gap), labels});
    gap_computed.push_back({absl::ToDoubleSeconds(process.gap_computed), labels});
  }
  families.push_back(CounterFamily("sluice_shard_busy_seconds_total",
                                   "Time that the shard has computed steps.", busy));
  families.push_back(CounterFamily("sluice_shard_gap_seconds_total",
                                   "Time between two steps in which the shard had nothing to "
                                   "compute though sequences were under way.",
                                   gap));
  families.push_back(CounterFamily("sluice_shard_gap_computed_seconds_total",
                                   "Of sluice_shard_gap_seconds_total, the time in which other "
                                   "stages computed what the shard waited for.",
                                   gap_computed));
}

void AddVllmNames(const EngineStatus& status, Families& families) {
  const KvCacheStatistics& cache = status.target().scheduler.kv_cache;
  families.push_back(
      GaugeFamily("vllm:num_requests_running", "sluice_sequences{state=\"running\"}.",
                  {{static_cast<double>(status.target().scheduler.running_sequences), {}}}));
  families.push_back(GaugeFamily("vllm:num_requests_waiting",
                                 "sluice_sequences{state=\"waiting\"}.", {{Waiting(status), {}}}));
  families.push_back(
      GaugeFamily("vllm:kv_cache_usage_perc", "sluice_kv_usage_ratio.", {{UsedPart(cache), {}}}));
  families.push_back(CounterFamily("vllm:prefix_cache_queries_total",
                                   "sluice_kv_queried_positions_total.",
                                   {{static_cast<double>(cache.queried_positions), {}}}));
  families.push_back(CounterFamily("vllm:prefix_cache_hits_total", "sluice_kv_hit_positions_total.",
                                   {{static_cast<double>(cache.hit_positions), {}}}));
  families.push_back(
      CounterFamily("vllm:spec_decode_num_draft_tokens_total", "sluice_drafted_tokens_total.",
                    {{static_cast<double>(status.target().scheduler.drafted_tokens), {}}}));
  families.push_back(CounterFamily(
      "vllm:spec_decode_num_accepted_tokens_total", "sluice_accepted_draft_tokens_total.",
      {{static_cast<double>(status.target().scheduler.accepted_drafts), {}}}));
  families.push_back(GaugeFamily("vllm:cache_config_info", "Size of the KV cache.",
                                 {{1.0,
                                   {{"block_size", absl::StrCat(cache.block_size)},
                                    {"num_gpu_blocks", absl::StrCat(cache.total_blocks)}}}}));
}

}  // namespace

EngineMetrics::EngineMetrics(std::function<EngineStatus()> look, bool vllm_names)
    : look_(std::move(look)), vllm_names_(vllm_names) {}

Families EngineMetrics::Collect() const {
  const EngineStatus status = look_();
  Families families;
  AddEngine(status, families);
  AddLedger(status.target().scheduler, families);
  AddCache(status.target().scheduler.kv_cache, families);
  if (const RunnerStatus* const draft = status.draft(); draft != nullptr) {
    AddDraftModel(*draft, status.num_proposed_tokens, families);
  }
  AddProcesses(status, families);
  AddShardTimes(*status.target().processes, families);
  if (vllm_names_) AddVllmNames(status, families);
  return families;
}

}  // namespace sluice
