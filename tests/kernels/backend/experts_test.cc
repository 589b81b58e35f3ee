// Mixtures of experts, on every backend that computes them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/expert_ops.h"
#include "tests/kernels/testing/backend_cases.h"
#include "tests/kernels/testing/tensors.h"

namespace sluice::testing {
namespace {

class ExpertsTest : public BackendTest {
 protected:
  void SetUp() override {
    BackendTest::SetUp();
    if (backend().experts() == nullptr) GTEST_SKIP() << "computes no mixtures of experts yet";
  }
};
SLUICE_FOR_ALL_PRODUCTS(ExpertsTest);

// A routing in a backend's memory, and on the host once it is read.
class DeviceRouting {
 public:
  DeviceRouting(Backend& backend, int64_t rows, int num_experts, int num_chosen)
      : backend_(backend),
        rows_(rows),
        size_(Routing::SizeBytes(rows, num_experts, num_chosen)),
        buffer_(*backend.Allocate(size_)),
        routing_(Routing::In(buffer_->data(), rows, num_experts, num_chosen)) {}

  const Routing& get() const { return routing_; }

  struct OnHost {
    std::vector<int32_t> first, rows, grouped;
    std::vector<float> weights;
  };
  OnHost Read() const {
    std::vector<std::byte> bytes(size_);
    EXPECT_TRUE(backend_.CopyOut(buffer_->data(), absl::MakeSpan(bytes)).ok());
    const Routing host =
        Routing::In(bytes.data(), rows_, routing_.num_experts, routing_.num_chosen);
    const int64_t count = rows_ * routing_.num_chosen;
    return {.first = {host.first, host.first + routing_.num_experts + 1},
            .rows = {host.rows, host.rows + count},
            .grouped = {host.grouped, host.grouped + count},
            .weights = {host.weights, host.weights + count}};
  }

 private:
  Backend& backend_;
  const int64_t rows_;
  const size_t size_;
  const std::unique_ptr<Buffer> buffer_;
  const Routing routing_;
};

DeviceRouting::OnHost RoutingOf(Backend& backend, const HostMatrix& outputs, RouteParams params,
                                const HostMatrix* bias = nullptr,
                                const HostMatrix* factors = nullptr) {
  const DeviceMatrix device(backend, outputs);
  std::optional<DeviceMatrix> device_bias, device_factors;
  if (factors != nullptr) {
    params.expert_factors = device_factors.emplace(backend, *factors).data();
  }
  if (bias != nullptr) params.choice_bias = device_bias.emplace(backend, *bias).data();
  const DeviceRouting routing(backend, outputs.rows, static_cast<int>(outputs.cols),
                              params.num_chosen);
  backend.experts()->Route(device.view(), params, routing.get());
  return routing.Read();
}

RouteParams RandomParams(Random& random, int num_experts) {
  RouteParams params{.num_chosen = static_cast<int>(RandomInt(random, 1, num_experts / 2))};
  if (RandomInt(random, 0, 1) == 1) params.scores = RouterScores::kSigmoid;
  if (RandomInt(random, 0, 1) == 1) {
    params.num_groups = 4;
    params.num_kept_groups = static_cast<int>(RandomInt(random, 2, 4));
    params.num_best_of_group = static_cast<int>(RandomInt(random, 1, 2));
  }
  params.normalised = RandomInt(random, 0, 1) == 1;
  params.least_sum = RandomInt(random, 0, 1) == 1 ? 1e-12F : 0;
  params.factor = RandomInt(random, 0, 1) == 1 ? 2.5F : 1;
  return params;
}

TEST_P(ExpertsTest, RoutesAsTheReferenceDoes) {
  Random random(1);
  for (int i = 0; i < 60; ++i) {
    const int num_experts = 4 * static_cast<int>(RandomInt(random, 2, 20));
    const HostMatrix outputs = RandomMatrix(random, RandomInt(random, 1, 40), num_experts, 2);
    const HostMatrix bias = RandomMatrix(random, 1, num_experts, 0.3F);
    const RouteParams params = RandomParams(random, num_experts);
    const HostMatrix* const given = RandomInt(random, 0, 1) == 1 ? &bias : nullptr;
    const HostMatrix factors = RandomMatrix(random, 1, num_experts, 1);
    const HostMatrix* const own = i % 2 == 1 ? &factors : nullptr;
    SCOPED_TRACE(::testing::Message() << "case " << i);
    const auto actual = RoutingOf(backend(), outputs, params, given, own);
    const auto expected = RoutingOf(reference(), outputs, params, given, own);
    ASSERT_EQ(actual.first, expected.first);
    EXPECT_EQ(actual.rows, expected.rows);
    EXPECT_EQ(actual.grouped, expected.grouped);
    for (size_t g = 0; g < actual.weights.size(); ++g) {
      EXPECT_NEAR(actual.weights[g], expected.weights[g],
                  2e-6 * (1 + std::abs(expected.weights[g])));
    }
  }
}

TEST_P(ExpertsTest, AmongEqualScoresTheLowerExpertIsChosen) {
  const HostMatrix outputs(2, 6, {1, 3, 3, 3, 0, 3, 5, 5, 5, 5, 5, 5});
  const auto routing = RoutingOf(backend(), outputs, {.num_chosen = 3});
  EXPECT_EQ(routing.first, (std::vector<int32_t>{0, 1, 3, 5, 6, 6, 6}));
  EXPECT_EQ(routing.rows, (std::vector<int32_t>{1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(routing.grouped, (std::vector<int32_t>{1, 3, 5, 0, 2, 4}));
}

// Padding rows of a step may hold anything.
TEST_P(ExpertsTest, RowsOfNoNumbersChooseExpertsToo) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const HostMatrix outputs(2, 4, {kNan, kNan, kNan, kNan, kNan, 2, kNan, 1});
  const auto routing = RoutingOf(backend(), outputs, {.num_chosen = 2});
  EXPECT_EQ(routing.rows, (std::vector<int32_t>{0, 0, 1, 1}));
  EXPECT_EQ(routing.first, (std::vector<int32_t>{0, 1, 3, 3, 4}));
}

constexpr int kExperts = 6, kChosen = 2, kHidden = 64, kWidth = 256, kShared = 256;

// The weights of a mixture on the host: each expert gate_up [2F, H] and down [H, F].
struct HostMixture {
  explicit HostMixture(Random& random)
      : shared(RandomMatrix(random, kHidden, kShared, 0.1F)),
        gate_up_bias(RandomMatrix(random, kExperts, 2 * kWidth, 0.3F)),
        down_bias(RandomMatrix(random, kExperts, kHidden, 0.3F)) {
    for (int expert = 0; expert < kExperts; ++expert) {
      gate_up.push_back(RandomMatrix(random, 2 * kWidth, kHidden, 0.2F));
      down.push_back(RandomMatrix(random, kHidden, kWidth, 0.1F));
    }
  }

  std::vector<HostMatrix> gate_up, down;
  HostMatrix shared, gate_up_bias, down_bias;
};

std::unique_ptr<ExpertMatrices> PackAll(Backend& backend, const std::vector<HostMatrix>& weights,
                                        const PackSpec& spec) {
  std::vector<std::unique_ptr<PackedMatrix>> packed;
  for (const HostMatrix& each : weights) packed.push_back(Pack(backend, each, spec));
  return std::make_unique<ExpertMatrices>(std::move(packed));
}

// The rows of a step, and what a router says of them.
struct StepRows {
  HostMatrix x;              // [T, H]
  HostMatrix outputs;        // [T, E]
  HostMatrix shared;         // [T, Fs]
  HostMatrix shared_scores;  // [T, 1]

  StepRows Rows(int64_t begin, int64_t count) const {
    return {x.Rows(begin, count), outputs.Rows(begin, count), shared.Rows(begin, count),
            shared_scores.Rows(begin, count)};
  }
};

StepRows RandomStep(Random& random, int64_t rows) {
  return {RandomMatrix(random, rows, kHidden), RandomMatrix(random, rows, kExperts, 2),
          RandomMatrix(random, rows, kShared), RandomMatrix(random, rows, 1)};
}

// What a test varies.
struct Variant {
  WeightFormat format = WeightFormat::kF32;
  ActivationFormat activations = ActivationFormat::kOperand;
  Activation activation = Activation::kSilu;
  bool weighs_inputs = false;
  // Columns of experts that this rank holds, of both kinds: part `rank` of `num_ranks`.
  int rank = 0;
  int num_ranks = 1;
};

// The part of a step's mixture that a rank computes.
HostMatrix Mix(Backend& backend, const HostMixture& mixture, const StepRows& step,
               const Variant& variant) {
  constexpr int kSlices = 4;
  const int64_t rows = step.x.rows, width = kWidth / variant.num_ranks;
  const int64_t shared_width = kShared / variant.num_ranks;
  std::vector<HostMatrix> gate_up, down;
  HostMatrix gate_up_bias(kExperts, 2 * width);
  for (int e = 0; e < kExperts; ++e) {
    HostMatrix both(2 * width, kHidden);
    for (const int64_t half : {0, 1}) {
      const int64_t first = half * kWidth + variant.rank * width;
      const HostMatrix part = mixture.gate_up[e].Rows(first, width);
      std::copy(part.values.begin(), part.values.end(),
                both.values.begin() + half * width * kHidden);
      for (int64_t f = 0; f < width; ++f) {
        gate_up_bias.At(e, half * width + f) = mixture.gate_up_bias.At(e, first + f);
      }
    }
    gate_up.push_back(both);
    down.push_back(mixture.down[e].Columns(variant.rank * width, width));
  }
  const MatrixFormat format(variant.format, variant.activations);
  const auto up = PackAll(backend, gate_up, {.format = format, .gated = true});
  const int num_slices = kSlices / variant.num_ranks;
  const auto last = PackAll(backend, down, {.format = format, .num_slices = num_slices});
  const auto shared =
      Pack(backend, mixture.shared.Columns(variant.rank * shared_width, shared_width),
           {.format = format, .num_slices = num_slices});

  const DeviceMatrix x(backend, step.x), outputs(backend, step.outputs);
  const DeviceMatrix scores(backend, step.shared_scores);
  const DeviceMatrix shared_x(backend,
                              step.shared.Columns(variant.rank * shared_width, shared_width));
  const DeviceMatrix up_bias(backend, gate_up_bias), down_bias(backend, mixture.down_bias);
  const DeviceRouting routing(backend, rows, kExperts, kChosen);
  ExpertOps& ops = *backend.experts();
  ops.ReserveForExperts(*up, *last, shared.get(), kChosen, rows);
  ops.Route(outputs.view(), {.num_chosen = kChosen, .normalised = true}, routing.get());
  DeviceMatrix activated(backend, rows * kChosen, width);
  ops.GroupedGemm(x.view(), *up, routing.get(),
                  {.bias = up_bias.data(),
                   .activation = variant.activation,
                   .clamp = {.alpha = 1.7F, .limit = 1.5F},
                   .weighs_inputs = variant.weighs_inputs},
                  activated.view());
  DeviceMatrix out(backend, rows, kHidden);
  ops.CombineExperts(
      activated.view(), *last, routing.get(),
      {.weighted = !variant.weighs_inputs,
       .bias = variant.rank == 0 ? down_bias.data() : nullptr,
       .shared = SharedExpert{.x = shared_x.view(), .down = shared.get(), .scores = scores.data()}},
      out.view());
  return out.Read();
}

TEST_P(ExpertsTest, AgreeWithTheReference) {
  Random random(2);
  const HostMixture mixture(random);
  for (const int64_t rows : {1, 5, 90}) {
    const StepRows step = RandomStep(random, rows);
    for (const Variant& variant :
         {Variant{}, Variant{.weighs_inputs = true},
          Variant{.activation = Activation::kClampedSwiGlu}, Variant{.format = WeightFormat::kBF16},
          Variant{.format = WeightFormat::kInt8}, Variant{.format = WeightFormat::kInt4}}) {
      // Rounded operands may fall to either side between the two products.
      const double tolerance = variant.format == WeightFormat::kF32 ? 2e-5 : 2e-2;
      EXPECT_TRUE(IsNear(Mix(backend(), mixture, step, variant),
                         Mix(reference(), mixture, step, variant), tolerance))
          << rows << " rows, " << Name(variant.format);
    }
  }
}

std::vector<Variant> AllFormats() {
  std::vector<Variant> variants;
  for (const MatrixFormat& format : MatrixFormats()) {
    if (TraitsOf(format.weights).group > kHidden) continue;  // these matrices are too narrow
    variants.push_back({.format = format.weights, .activations = format.activations});
  }
  variants.push_back({.weighs_inputs = true});
  return variants;
}

TEST_P(ExpertsTest, RowsHaveTheSameBitsInAnyCompany) {
  Random random(3);
  const HostMixture mixture(random);
  const StepRows step = RandomStep(random, 150);
  for (const Variant& variant : AllFormats()) {
    const HostMatrix whole = Mix(backend(), mixture, step, variant);
    for (const auto& [begin, count] :
         std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {149, 1}, {20, 3}, {70, 64}, {10, 70}}) {
      EXPECT_TRUE(SameBits(Mix(backend(), mixture, step.Rows(begin, count), variant),
                           whole.Rows(begin, count)))
          << Name(variant.format) << ", rows from " << begin;
    }
  }
}

// Ranks hold columns of every expert, and join their sums as TreeAdd does.
TEST_P(ExpertsTest, RanksGiveTheSameBits) {
  Random random(4);
  const HostMixture mixture(random);
  const StepRows step = RandomStep(random, 9);
  for (Variant variant : AllFormats()) {
    const HostMatrix whole = Mix(backend(), mixture, step, variant);
    for (const int num_ranks : {2, 4}) {
      variant.num_ranks = num_ranks;
      std::vector<DeviceMatrix> partials;
      std::vector<MatrixView> views;
      for (variant.rank = 0; variant.rank < num_ranks; ++variant.rank) {
        partials.emplace_back(backend(), Mix(backend(), mixture, step, variant));
        views.push_back(partials.back().view());
      }
      DeviceMatrix sum(backend(), step.x.rows, kHidden);
      backend().TreeAdd(views, sum.view());
      EXPECT_TRUE(SameBits(sum.Read(), whole)) << Name(variant.format) << ", " << num_ranks;
    }
  }
}

}  // namespace
}  // namespace sluice::testing
