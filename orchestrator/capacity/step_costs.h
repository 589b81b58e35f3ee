// What steps of a model cost on a machine, measured there (`sluice bench --fit`) or written by hand:
// what the simulation takes time from. Plain values.
//
// The file is JSON, one entry of "costs" for each arrangement that was measured:
//   {"model": "storyteller (bf16)", "machine": "AMD EPYC 9554, 2 cores",
//    "costs": [{"tp": 1, "pp": 1, "max_step_tokens": 512, "max_positions": 512,
//               "block_size": 16, "kv_blocks": 8192,
//               "step_seconds": [[1, 0.0011], [64, 0.004], [512, 0.021]],
//               "row_seconds": 1e-5, "decode_position_seconds": 2e-8, "prompt_pair_seconds": 3e-9,
//               "request_seconds": 0.0008}]}
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

struct Step;

// What a step computes, as far as its cost depends on it.
struct StepLoad {
  double positions = 0;  // over all segments
  double rows = 0;       // that choose a token
  // Of segments of one position: the positions whose keys they read, over all of them.
  double decode_positions = 0;
  // Of longer segments: pairs of a position and one whose keys it reads.
  double prompt_pairs = 0;
};

StepLoad LoadOfStep(const Step& step);

// Of one arrangement. All times are finite and not negative.
struct StepCosts {
  int tp = 1;
  int pp = 1;
  // Of the pipeline that was measured, and what the simulation has by default; 0: not known.
  int32_t max_step_tokens = 0;
  int32_t max_positions = 0;
  int32_t block_size = 0;
  int32_t kv_blocks = 0;

  // Seconds of a step, through all stages, by its positions: on a line between two entries, and
  // beyond the last one on that of the last two. At least one, by rising positions >= 1.
  std::vector<std::pair<double, double>> step_seconds;
  double row_seconds = 0;              // more for every row
  double decode_position_seconds = 0;  // more for each of StepLoad::decode_positions
  double prompt_pair_seconds = 0;      // more for each of StepLoad::prompt_pairs
  double request_seconds = 0;          // of a request outside of steps: API, tokens on their way

  double SecondsOf(const StepLoad& load) const;
};

struct StepCostTable {
  std::string model;    // what was measured; may be empty
  std::string machine;  // where; may be empty
  std::vector<StepCosts> costs;

  // NOT_FOUND naming those that there are.
  absl::StatusOr<StepCosts> Of(int tp, int pp) const;
};

// INVALID_ARGUMENT naming field, value and what is accepted. `source` names the file in messages.
absl::StatusOr<StepCostTable> ParseStepCosts(const std::string& text, const std::string& source);
std::string FormatStepCosts(const StepCostTable& table);

}  // namespace sluice
