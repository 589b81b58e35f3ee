#include "kernels/reference/reference_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/check.h"
#include "kernels/reference/element.h"

namespace sluice {
namespace {

using Doubles = std::vector<double>;

constexpr double kLeast = -std::numeric_limits<double>::infinity();

double SigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

Doubles ScoresOf(const Doubles& outputs, RouterScores kind) {
  Doubles scores(outputs.size());
  if (kind == RouterScores::kSigmoid) {
    std::transform(outputs.begin(), outputs.end(), scores.begin(), SigmoidOf);
    return scores;
  }
  const double largest = *std::max_element(outputs.begin(), outputs.end());
  std::transform(outputs.begin(), outputs.end(), scores.begin(),
                 [largest](double output) { return std::exp(output - largest); });
  const double sum = std::accumulate(scores.begin(), scores.end(), 0.0);
  for (double& score : scores) score /= sum;
  return scores;
}

// Indices of the `count` largest keys, the lower of equal ones first, in ascending order.
std::vector<int> BestOf(const Doubles& keys, int count) {
  std::vector<int> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return keys[a] > keys[b]; });
  order.resize(count);
  std::sort(order.begin(), order.end());
  return order;
}

// Keys of all but the kept groups become the least.
void DropGroups(const RouteParams& params, Doubles& keys) {
  const auto size = static_cast<int>(keys.size()) / params.num_groups;
  Doubles of_groups;
  for (int group = 0; group < params.num_groups; ++group) {
    Doubles sorted(keys.begin() + group * size, keys.begin() + (group + 1) * size);
    std::sort(sorted.rbegin(), sorted.rend());
    of_groups.push_back(
        std::accumulate(sorted.begin(), sorted.begin() + params.num_best_of_group, 0.0));
  }
  const std::vector<int> kept = BestOf(of_groups, params.num_kept_groups);
  for (int group = 0; group < params.num_groups; ++group) {
    if (std::binary_search(kept.begin(), kept.end(), group)) continue;
    std::fill_n(keys.begin() + group * size, size, kLeast);
  }
}

struct Chosen {
  std::vector<int> experts;
  Doubles weights;
};

Chosen ChooseExperts(const float* row, int num_experts, const RouteParams& params) {
  Doubles outputs(row, row + num_experts);
  for (double& output : outputs) output = std::isnan(output) ? kLeast : output;
  const Doubles scores = ScoresOf(outputs, params.scores);
  Doubles keys = params.choice_bias == nullptr ? outputs : scores;
  if (params.choice_bias != nullptr) {
    for (int e = 0; e < num_experts; ++e) keys[e] += params.choice_bias[e];
  }
  if (params.num_kept_groups < params.num_groups) DropGroups(params, keys);
  Chosen chosen{BestOf(keys, params.num_chosen), {}};
  double sum = 0;
  for (const int expert : chosen.experts) sum += scores[expert];
  const double divisor = params.normalised ? std::max<double>(sum, params.least_sum) : 1;
  for (const int expert : chosen.experts) {
    const double own = params.expert_factors == nullptr ? 1 : params.expert_factors[expert];
    chosen.weights.push_back(params.factor * scores[expert] / divisor * own);
  }
  return chosen;
}

// The expert of a grouped row.
int ExpertOf(const Routing& routing, int64_t grouped) {
  return static_cast<int>(std::upper_bound(routing.first, routing.first + routing.num_experts + 1,
                                           static_cast<int32_t>(grouped)) -
                          routing.first) -
         1;
}

// sums += weight * (x times the matrix + bias).
void AddProduct(Ops& ops, MatrixView x, const PackedMatrix& matrix, const float* bias,
                double weight, Doubles& sums) {
  std::vector<float> product(sums.size());
  const auto cols = static_cast<int64_t>(sums.size());
  ops.Gemm(x, matrix, {product.data(), DType::kF32, 1, cols, cols}, {.bias = bias});
  for (size_t h = 0; h < sums.size(); ++h) sums[h] += weight * product[h];
}

}  // namespace

void ReferenceExperts::Route(MatrixView outputs, const RouteParams& params,
                             const Routing& routing) {
  std::vector<Chosen> rows;
  for (int64_t t = 0; t < outputs.rows; ++t) {
    rows.push_back(ChooseExperts(outputs.Row(t), routing.num_experts, params));
  }
  int32_t grouped = 0;
  for (int expert = 0; expert < routing.num_experts; ++expert) {
    routing.first[expert] = grouped;
    for (size_t t = 0; t < rows.size(); ++t) {
      for (int i = 0; i < routing.num_chosen; ++i) {
        if (rows[t].experts[i] != expert) continue;
        routing.rows[grouped] = static_cast<int32_t>(t);
        routing.weights[grouped] = static_cast<float>(rows[t].weights[i]);
        routing.grouped[t * routing.num_chosen + i] = grouped++;
      }
    }
  }
  routing.first[routing.num_experts] = grouped;
}

void ReferenceExperts::GroupedGemm(MatrixView x, const ExpertMatrices& weights,
                                   const Routing& routing, const GroupedOptions& options,
                                   MatrixView out) {
  for (int64_t g = 0; g < out.rows; ++g) {
    const int expert = ExpertOf(routing, g);
    const PackedMatrix& matrix = weights.Of(expert);
    MatrixView row = x.Rows(routing.rows[g], 1);
    std::vector<float> weighted(x.cols);
    if (options.weighs_inputs) {
      for (int64_t k = 0; k < x.cols; ++k)
        weighted[k] = routing.weights[g] * LoadElement(row, 0, k);
      row = {weighted.data(), DType::kF32, 1, x.cols, x.cols};
    }
    const float* const bias =
        options.bias == nullptr ? nullptr : options.bias + expert * matrix.num_outputs();
    ops_.Gemm(row, matrix, out.Rows(g, 1),
              {.bias = bias, .activation = options.activation, .clamp = options.clamp});
  }
}

void ReferenceExperts::CombineExperts(MatrixView x, const ExpertMatrices& weights,
                                      const Routing& routing, const CombineOptions& options,
                                      MatrixView out) {
  for (int64_t t = 0; t < out.rows; ++t) {
    Doubles sums(out.cols);
    for (int i = 0; i < routing.num_chosen; ++i) {
      const int32_t g = routing.grouped[t * routing.num_chosen + i];
      const int expert = ExpertOf(routing, g);
      AddProduct(ops_, x.Rows(g, 1), weights.Of(expert),
                 options.bias == nullptr ? nullptr : options.bias + expert * out.cols,
                 options.weighted ? routing.weights[g] : 1, sums);
    }
    if (options.shared.has_value()) {
      const SharedExpert& shared = *options.shared;
      AddProduct(ops_, shared.x.Rows(t, 1), *shared.down, /*bias=*/nullptr,
                 shared.scores == nullptr ? 1 : SigmoidOf(shared.scores[t]), sums);
    }
    for (int64_t h = 0; h < out.cols; ++h) {
      const auto sum = static_cast<float>(sums[h]);
      out.Row(t)[h] = options.add_to_out ? out.Row(t)[h] + sum : sum;
    }
  }
}

}  // namespace sluice
