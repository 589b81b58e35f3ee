// The figures of a load, computed from its trace, and how they are shown. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clients/cli/bench_phases.h"
#include "clients/cli/load_generator.h"
#include "sluice/v1/status.pb.h"

namespace sluice {

// By nearest rank: the smallest value that at least that share of the values do not exceed.
struct Percentiles {
  double p50 = 0;
  double p90 = 0;
  double p95 = 0;
  double p99 = 0;
};

// Parts of a shard's time at work.
struct GapShares {
  double all = 0;     // in which it waited between two steps
  double system = 0;  // of it, without what other stages computed meanwhile
};

struct BenchFigures {
  Percentiles first_token_seconds;
  Percentiles between_tokens_seconds;  // 0 where no request wrote a second token
  Percentiles request_seconds;
  double prefill_tokens_per_second = 0;
  double decode_tokens_per_second = 0;
  double wall_seconds = 0;
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;  // of them, found in the prefix cache instead of computed
  int64_t generated_tokens = 0;
  int num_requests = 0;
  std::optional<GapShares> gaps;  // as GapSharesBetween
};

// Of the shard that waits most, between two states of a pipeline. Nothing where no shard has said so.
std::optional<GapShares> GapSharesBetween(const v1::GetStatusResponse& before,
                                          const v1::GetStatusResponse& after);

// How each figure is computed, for the help and the foot of the table.
extern const char kFigureDefinitions[];

// REQUIRES: `values` is not empty.
Percentiles PercentilesOf(std::vector<double> values);

BenchFigures FiguresOf(const LoadTrace& trace);

// `model` and `machine` say what was measured, and where.
std::string BenchTable(const BenchFigures& figures, const LoadOptions& options,
                       const std::string& model, const std::string& machine);
// One JSON object.
std::string BenchJson(const BenchFigures& figures, const LoadOptions& options,
                      const std::string& model, const std::string& machine);

// What was measured apart, and what it was measured on.
struct PhasesReport {
  std::string model;
  std::string machine;
  std::optional<double> start_seconds;  // until a pipeline of this process served
  // Held by shards and sampler: what a step with one row reads. 0: unknown.
  uint64_t step_weight_bytes = 0;
  uint64_t kv_bytes = 0;  // of all shards
  std::vector<PhaseFigures> phases;
  std::optional<GapShares> gaps;  // over all phases, as GapSharesBetween
};

std::string PhasesTable(const PhasesReport& report);
// One JSON object.
std::string PhasesJson(const PhasesReport& report);

// CPU and cores of this machine, such as "AMD EPYC 9554, 16 cores".
std::string MachineName();

}  // namespace sluice
