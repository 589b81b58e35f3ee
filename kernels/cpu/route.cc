#include "kernels/cpu/route.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/route.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/cpu/activation-inl.h"
#include "kernels/cpu/simd-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace sluice {
namespace HWY_NAMESPACE {
namespace {

void Sigmoids(const float* x, int64_t count, float* out) {
  ForEachVector(count, [=](auto d, int64_t i)
                           HWY_ATTR { hn::StoreU(Sigmoid(d, hn::LoadU(d, x + i)), d, out + i); });
}

// exp(x - the largest of x); returns their sum.
float Exponentials(const float* x, int64_t count, float* out) {
  const float largest = Maximum(x, count);
  ForEachVector(count, [=](auto d, int64_t i) HWY_ATTR {
    hn::StoreU(Exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, largest))), d, out + i);
  });
  return static_cast<float>(
      FixedOrderSum(count, [=](auto d, int64_t i) HWY_ATTR { return hn::LoadU(d, out + i); }));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace sluice
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sluice {

HWY_EXPORT(Sigmoids);
HWY_EXPORT(Exponentials);

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

// The index of the largest of `count` keys, the lowest of equal ones. -1 where none is above
// minus infinity.
int BestOf(const float* keys, int count) {
  int best = -1;
  float largest = kLowest;
  for (int i = 0; i < count; ++i) {
    if (keys[i] > largest) {
      largest = keys[i];
      best = i;
    }
  }
  return best;
}

// Takes the `num_taken` best keys, which it marks in `taken`; where fewer are above minus infinity,
// the lowest of the rest.
void TakeBest(float* keys, int count, int num_taken, uint8_t* taken) {
  std::fill_n(taken, count, uint8_t{0});
  for (int i = 0; i < num_taken; ++i) {
    int best = BestOf(keys, count);
    if (best < 0) best = static_cast<int>(std::find(taken, taken + count, 0) - taken);
    taken[best] = 1;
    keys[best] = kLowest;
  }
}

// Of one row, in a thread's scratch memory.
struct RouteScratch {
  // Floats that it takes.
  static int64_t Floats(int num_experts, int num_groups) {
    return 2 * num_experts + num_groups + (num_experts + num_groups + 3) / 4;
  }
  RouteScratch(float* memory, int num_experts, int num_groups)
      : scores(memory),
        keys(scores + num_experts),
        group_keys(keys + num_experts),
        taken(reinterpret_cast<uint8_t*>(group_keys + num_groups)),
        groups_taken(taken + num_experts) {}

  float* scores;      // [E]
  float* keys;        // [E], by which experts are chosen
  float* group_keys;  // [groups]
  uint8_t* taken;     // [E]
  uint8_t* groups_taken;
};

// The largest, or the sum of the two largest.
float GroupKey(const float* keys, int count, int num_best) {
  const int best = BestOf(keys, count);
  if (best < 0 || num_best == 1) return best < 0 ? kLowest : keys[best];
  float second = kLowest;
  for (int i = 0; i < count; ++i) {
    if (i != best) second = std::max(second, keys[i]);
  }
  return keys[best] + second;
}

void DropGroups(const RouteParams& params, int num_experts, const RouteScratch& row) {
  const int of_group = num_experts / params.num_groups;
  for (int group = 0; group < params.num_groups; ++group) {
    row.group_keys[group] =
        GroupKey(row.keys + group * of_group, of_group, params.num_best_of_group);
  }
  TakeBest(row.group_keys, params.num_groups, params.num_kept_groups, row.groups_taken);
  for (int group = 0; group < params.num_groups; ++group) {
    if (row.groups_taken[group] == 0) {
      std::fill_n(row.keys + group * of_group, of_group, kLowest);
    }
  }
}

// Marks the experts of a row and leaves their weights in row.scores.
void RouteRow(const float* outputs, int num_experts, const RouteParams& params,
              const RouteScratch& row) {
  float sum = 1;
  if (params.scores == RouterScores::kSigmoid) {
    HWY_DYNAMIC_DISPATCH(Sigmoids)(outputs, num_experts, row.scores);
  } else {
    sum = HWY_DYNAMIC_DISPATCH(Exponentials)(outputs, num_experts, row.scores);
  }
  // Without a bias outputs have the order of scores, and no two that rounding makes equal.
  const bool normalises_itself = params.normalised && params.scores == RouterScores::kSoftmax &&
                                 params.least_sum == 0 && params.choice_bias == nullptr;
  if (!normalises_itself) {
    for (int e = 0; e < num_experts; ++e) row.scores[e] /= sum;
  }
  for (int e = 0; e < num_experts; ++e) {
    const float key =
        params.choice_bias == nullptr ? outputs[e] : row.scores[e] + params.choice_bias[e];
    row.keys[e] = std::isnan(key) ? kLowest : key;
  }
  if (params.num_kept_groups < params.num_groups) DropGroups(params, num_experts, row);
  TakeBest(row.keys, num_experts, params.num_chosen, row.taken);
  float total = 0;
  for (int e = 0; e < num_experts; ++e) total += row.taken[e] != 0 ? row.scores[e] : 0.0f;
  const float divisor = params.normalised ? std::max(total, params.least_sum) : 1.0f;
  for (int e = 0; e < num_experts; ++e) {
    row.scores[e] = params.factor * (row.scores[e] / divisor);
    if (params.expert_factors != nullptr) row.scores[e] *= params.expert_factors[e];
  }
}

// Turns the experts [T, k] of `routing.grouped`, with their weights in `weights` [T, k], into rows
// grouped by expert.
void Group(int64_t num_rows, const float* weights, const Routing& routing) {
  std::fill_n(routing.first, routing.num_experts + 1, 0);
  const int64_t count = num_rows * routing.num_chosen;
  for (int64_t i = 0; i < count; ++i) ++routing.first[routing.grouped[i] + 1];
  for (int e = 0; e < routing.num_experts; ++e) routing.first[e + 1] += routing.first[e];
  for (int64_t i = 0; i < count; ++i) {
    // While rows are placed, first[e] is where the next one of expert e goes.
    const int32_t to = routing.first[routing.grouped[i]]++;
    routing.rows[to] = static_cast<int32_t>(i / routing.num_chosen);
    routing.weights[to] = weights[i];
    routing.grouped[i] = to;
  }
  for (int e = routing.num_experts; e > 0; --e) routing.first[e] = routing.first[e - 1];
  routing.first[0] = 0;
}

}  // namespace

void Route(CpuContext& context, MatrixView outputs, const RouteParams& params,
           const Routing& routing) {
  const int num_experts = routing.num_experts, num_chosen = routing.num_chosen;
  SLUICE_CHECK(outputs.cols == num_experts && num_chosen == params.num_chosen);
  float* const weights = context.operand.Floats(0, outputs.rows * num_chosen);
  const int64_t scratch = RouteScratch::Floats(num_experts, params.num_groups);
  // Some 4 passes over a row's experts and one for each that is chosen.
  const int64_t work = int64_t{num_experts} * (num_chosen + 4);
  const int64_t run = std::max<int64_t>(1, kElementsWorthATask / work);
  context.pool.ParallelFor((outputs.rows + run - 1) / run, [&](int64_t task, int worker) {
    const RouteScratch row(context.scratch.Floats(worker, scratch), num_experts, params.num_groups);
    for (int64_t t = task * run; t < std::min(outputs.rows, (task + 1) * run); ++t) {
      RouteRow(outputs.Row(t), num_experts, params, row);
      int64_t to = t * num_chosen;
      for (int e = 0; e < num_experts; ++e) {
        if (row.taken[e] == 0) continue;
        routing.grouped[to] = e;
        weights[to++] = row.scores[e];
      }
    }
  });
  Group(outputs.rows, weights, routing);
}

void SigmoidOf(const float* x, int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(Sigmoids)(x, count, out);
}

}  // namespace sluice
#endif  // HWY_ONCE
