// A sum over ranks on its way into the residual stream, with the norm behind it, against its parts.
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "kernels/rank_group.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/primitives.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

using SumToResidualTest = BackendTest;
SLUICE_FOR_ALL_BACKENDS(SumToResidualTest);

struct SumCase {
  size_t num_partials = 2;
  int64_t rows = 1, width = 64;
  bool has_bias = false;
  enum class Norm { kNone, kRms, kLayer, kLayerWithBias } norm = Norm::kRms;
};

struct SumInputs {
  SumInputs(Random& random, const SumCase& c)
      : residual(RandomMatrix(random, c.rows, c.width)),
        bias(RandomMatrix(random, 1, c.width)),
        norm_weight(RandomMatrix(random, 1, c.width)),
        norm_bias(RandomMatrix(random, 1, c.width)) {
    for (size_t i = 0; i < c.num_partials; ++i) {
      partials.push_back(RandomMatrix(random, c.rows, c.width, i % 2 == 0 ? 1000 : 1));
    }
  }
  std::vector<HostMatrix> partials;
  HostMatrix residual, bias, norm_weight, norm_bias;
};

struct SumOutcome {
  HostMatrix residual, normed;
};

// The same by operations one after another.
void SumByParts(Backend& backend, absl::Span<const MatrixView> partials,
                const ResidualUpdate& update) {
  const MatrixView sum = partials[0];
  backend.TreeAdd(partials, sum);
  if (update.bias != nullptr) AddBias(backend, update.bias, sum);
  backend.AddResidual(sum, update.residual);
  if (!update.norm.has_value()) return;
  const RowNorm& norm = *update.norm;
  if (norm.centred) {
    backend.LayerNorm(update.residual, norm.weight, norm.bias, norm.eps, update.normed);
  } else {
    backend.RmsNorm(update.residual, norm.weight, norm.eps, update.normed);
  }
}

// With `fused` as one operation, else by its parts.
SumOutcome Sum(Backend& backend, const SumCase& c, const SumInputs& inputs, bool fused) {
  std::deque<DeviceMatrix> partials;
  std::vector<MatrixView> views;
  for (const HostMatrix& partial : inputs.partials) {
    views.push_back(partials.emplace_back(backend, partial).view());
  }
  DeviceMatrix residual(backend, inputs.residual), normed(backend, c.rows, c.width);
  DeviceMatrix bias(backend, inputs.bias), weight(backend, inputs.norm_weight);
  DeviceMatrix norm_bias(backend, inputs.norm_bias);
  ResidualUpdate update{.residual = residual.view(),
                        .bias = c.has_bias ? bias.view().Row(0) : nullptr};
  if (c.norm != SumCase::Norm::kNone) {
    const bool has_bias = c.norm == SumCase::Norm::kLayerWithBias;
    update.norm = {.weight = weight.view().Row(0),
                   .bias = has_bias ? norm_bias.view().Row(0) : nullptr,
                   .eps = 1e-5f,
                   .centred = c.norm != SumCase::Norm::kRms};
    update.normed = normed.view();
  }
  if (fused) {
    backend.TreeAddToResidual(views, update);
  } else {
    SumByParts(backend, views, update);
  }
  return {residual.Read(), c.norm == SumCase::Norm::kNone ? HostMatrix(0, 0) : normed.Read()};
}

std::vector<SumCase> Cases() {
  std::vector<SumCase> cases;
  for (const size_t count : {1, 2, 4, 8}) {
    for (const auto norm : {SumCase::Norm::kNone, SumCase::Norm::kRms, SumCase::Norm::kLayer,
                            SumCase::Norm::kLayerWithBias}) {
      // Rows that a block's threads hold in registers, and one that they don't.
      for (const int64_t width : {33, 256, 4095, 8200}) {
        cases.push_back({.num_partials = count,
                         .rows = width > 4000 ? 2 : 5,
                         .width = width,
                         .has_bias = (count + cases.size()) % 2 == 0,
                         .norm = norm});
      }
    }
  }
  return cases;
}

TEST_P(SumToResidualTest, HasTheBitsOfItsParts) {
  Random random(1);
  for (const SumCase& c : Cases()) {
    const SumInputs inputs(random, c);
    const SumOutcome fused = Sum(backend(), c, inputs, true);
    const SumOutcome parts = Sum(backend(), c, inputs, false);
    EXPECT_TRUE(SameBits(fused.residual, parts.residual)) << c.num_partials << " x " << c.width;
    EXPECT_TRUE(SameBits(fused.normed, parts.normed)) << c.num_partials << " x " << c.width;
  }
}

TEST_P(SumToResidualTest, AgreesWithReference) {
  Random random(2);
  for (const SumCase& c : Cases()) {
    if (c.width > 4000) continue;
    const SumInputs inputs(random, c);
    const SumOutcome ours = Sum(backend(), c, inputs, true);
    const SumOutcome expected = Sum(reference(), c, inputs, true);
    EXPECT_TRUE(SameBits(ours.residual, expected.residual)) << c.num_partials;
    EXPECT_TRUE(IsNear(ours.normed, expected.normed, 1e-5)) << c.num_partials;
  }
}

// Ranks with eight, four, two or one of eight partials: each adds up its own, then all are joined.
TEST_P(SumToResidualTest, HasTheSameBitsForAnyNumberOfRanks) {
  Random random(3);
  const SumCase all{.num_partials = 8, .rows = 3, .width = 300, .has_bias = true};
  const SumInputs inputs(random, all);
  const SumOutcome expected = Sum(backend(), all, inputs, true);
  for (const size_t ranks : {1, 2, 4}) {
    SumCase joined = all;
    joined.num_partials = ranks;
    SumInputs of_ranks = inputs;
    of_ranks.partials.clear();
    for (size_t rank = 0; rank < ranks; ++rank) {
      std::deque<DeviceMatrix> own;
      std::vector<MatrixView> views;
      for (size_t i = 0; i < 8 / ranks; ++i) {
        views.push_back(own.emplace_back(backend(), inputs.partials[rank * 8 / ranks + i]).view());
      }
      backend().TreeAdd(views, views[0]);
      of_ranks.partials.push_back(own[0].Read());
    }
    const SumOutcome sum = Sum(backend(), joined, of_ranks, true);
    EXPECT_TRUE(SameBits(sum.residual, expected.residual)) << ranks << " ranks";
    EXPECT_TRUE(SameBits(sum.normed, expected.normed)) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace sluice::testing
