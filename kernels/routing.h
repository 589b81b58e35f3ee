// How a router's outputs choose experts, and what the choice is kept in. Plain values; ExpertOps
// (kernels/expert_ops.h) works on them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice {

// What becomes of a row's router outputs.
enum class RouterScores : uint8_t {
  kSoftmax,  // over all experts
  kSigmoid,  // of each by itself
};

// Experts of a row are chosen by their scores, ties by the lower index:
// 1. Scores, plus `choice_bias` for the choice alone.
// 2. Of `num_groups` equal runs of experts, the `num_kept_groups` remain whose best one, or whose
//    best two together, score highest (DeepSeek-AI 2024).
// 3. Of these experts, the `num_chosen` best are chosen.
// Their weights are their scores without the bias; normalised, divided by their sum or by
// `least_sum`, where that is larger; times `factor`, and times their own of `expert_factors`.
struct RouteParams {
  RouterScores scores = RouterScores::kSoftmax;
  int num_chosen = 1;                  // k, in [1, experts of the kept groups]
  const float* choice_bias = nullptr;  // [E] F32 of the backend's memory; null: none
  // [E] likewise: an expert's weight is multiplied by its factor in the end; null: none.
  const float* expert_factors = nullptr;
  int num_groups = 1;  // divides E
  int num_kept_groups = 1;
  int num_best_of_group = 1;  // 1 or 2: whose scores add up to a group's
  bool normalised = false;
  float least_sum = 0;  // >= 0
  float factor = 1;
};

// Where each row of a step goes: memory of the backend. The T * k pairs of a row and an expert are
// ordered by expert, then by row, and become the rows of a grouped matrix.
struct Routing {
  int num_experts = 0;  // E
  int num_chosen = 0;   // k
  int32_t* first;       // [E + 1]: expert e has the grouped rows [first[e], first[e + 1])
  int32_t* rows;        // [T * k]: the step's row that a grouped row is of
  float* weights;       // [T * k]: of a grouped row
  int32_t* grouped;     // [T, k]: the grouped rows of a row's experts, ascending

  // Bytes that a routing of `max_rows` rows takes.
  static constexpr size_t SizeBytes(int64_t max_rows, int num_experts, int num_chosen) {
    return sizeof(int32_t) * (3 * static_cast<size_t>(max_rows * num_chosen) + num_experts + 1);
  }
  // A routing in so much memory.
  static Routing In(void* memory, int64_t max_rows, int num_experts, int num_chosen) {
    auto* const first = static_cast<int32_t*>(memory);
    int32_t* const rows = first + num_experts + 1;
    int32_t* const weights = rows + max_rows * num_chosen;
    return {.num_experts = num_experts,
            .num_chosen = num_chosen,
            .first = first,
            .rows = rows,
            .weights = reinterpret_cast<float*>(weights),
            .grouped = weights + max_rows * num_chosen};
  }
};

}  // namespace sluice
