#include "services/shard/adapter_weights.h"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>
#include <variant>

#include "services/model/tensor_roles.h"

namespace sluice {
namespace {

// [columns, rows] of a matrix [rows, columns].
std::vector<float> TransposedOf(const std::vector<float>& matrix, int64_t rows, int64_t columns) {
  std::vector<float> turned(matrix.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      turned[column * rows + row] = matrix[row * columns + column];
    }
  }
  return turned;
}

}  // namespace

// Loads an adapter; the first error ends it.
class AdapterLoader {
 public:
  AdapterLoader(const ModelConfig& config, const ShardPlan& plan, const AdapterSource& source,
                Backend& backend)
      : config_(config), plan_(plan), source_(source), weights_(new AdapterWeights(backend)) {}

  void LoadLayer(int layer);
  absl::StatusOr<std::unique_ptr<AdapterWeights>> Finish() && {
    if (!status_.ok()) return status_;
    return std::move(weights_);
  }

 private:
  // Factors of one tensor, cut to the rank's part.
  struct Part {
    LowRankFactors factors;
    int64_t first_output = 0;
    int64_t num_outputs = 0;
  };

  // The parts below one another as LayerLoader::Matrix has them.
  void Matrix(std::initializer_list<TensorRole> roles, int64_t num_slices = 1, int expert = -1);
  // The maps of latent attention, a head at a time.
  void LatentMaps(const LatentSpec& spec);
  void LoadMlp(const DenseMlpSpec& mlp) {
    using enum TensorRole;
    Matrix({kGate, kUp});
    Matrix({kDown}, plan_.MlpOf(mlp.width).down_proj.slices.size());
  }
  void LoadMlp(const MixtureSpec& mlp);
  void LoadMlp(const NoMlpSpec&) {}
  void Add(TensorId matrix, int64_t num_inputs, int64_t num_slices, const std::vector<Part>& parts);

  const ModelConfig& config_;
  const ShardPlan& plan_;
  const AdapterSource& source_;
  int layer_ = 0;
  absl::Status status_;
  std::unique_ptr<AdapterWeights> weights_;
};

void AdapterLoader::Add(TensorId matrix, int64_t num_inputs, int64_t num_slices,
                        const std::vector<Part>& parts) {
  if (parts.empty() || !status_.ok()) return;
  std::vector<PlainAdapter> plain;
  for (const Part& part : parts) {
    const auto same = std::find_if(parts.begin(), parts.end(), [&](const Part& other) {
      return other.factors.module == part.factors.module;
    });
    const auto index = static_cast<int>(same - parts.begin());
    plain.push_back({.a = part.factors.a,
                     .b = part.factors.b,
                     .rank = part.factors.rank,
                     .first_output = part.first_output,
                     .num_outputs = part.num_outputs,
                     .shares_a_with = index == static_cast<int>(plain.size()) ? -1 : index});
  }
  auto factors = weights_->memory_.Add(plain, num_inputs, static_cast<int>(num_slices));
  status_ = factors.status();
  if (factors.ok()) weights_->factors_.emplace(matrix, *std::move(factors));
}

void AdapterLoader::Matrix(std::initializer_list<TensorRole> roles, int64_t num_slices,
                           int expert) {
  std::vector<Part> parts;
  std::optional<TensorId> first;
  int64_t num_outputs = 0, num_inputs = 0;
  for (const TensorRole role : roles) {
    const TensorId tensor{role, layer_, expert};
    if (!HasTensor(tensor, config_)) continue;
    if (!first.has_value()) first = tensor;
    const TensorSlice slice = SliceOf(tensor, config_, plan_);
    num_inputs = slice.columns.size();
    if (source_.Has(tensor)) {
      parts.push_back({source_.Read(tensor, slice), num_outputs, slice.rows.size()});
    }
    num_outputs += slice.rows.size();
  }
  if (first.has_value()) Add(*first, num_inputs, num_slices, parts);
}

// Absorbed: queries meet the transpose of a head's rows of keys, so the two matrices change places.
void AdapterLoader::LatentMaps(const LatentSpec& spec) {
  const TensorId tensor{TensorRole::kKvB, layer_};
  if (!source_.Has(tensor)) return;
  const TensorSlice slice = SliceOf(tensor, config_, plan_);
  const int64_t head_rows = spec.nope_dim + spec.value_dim;
  for (int64_t head = 0; head * head_rows < slice.rows.size(); ++head) {
    const int64_t first = head * head_rows;
    const int index = static_cast<int>(2 * head);
    LowRankFactors keys = source_.Read(tensor, slice.Rows(first, first + spec.nope_dim));
    const int64_t rank = keys.rank;
    std::vector<float> outputs = TransposedOf(keys.a, rank, spec.rank);
    keys.a = TransposedOf(keys.b, spec.nope_dim, rank);
    keys.b = std::move(outputs);
    Add({TensorRole::kKvB, layer_, index}, spec.nope_dim, 1, {{std::move(keys), 0, spec.rank}});
    LowRankFactors values =
        source_.Read(tensor, slice.Rows(first + spec.nope_dim, first + head_rows));
    Add({TensorRole::kKvB, layer_, index + 1}, spec.rank, 1,
        {{std::move(values), 0, spec.value_dim}});
  }
}

void AdapterLoader::LoadMlp(const MixtureSpec& mlp) {
  using enum TensorRole;
  const int64_t slices = plan_.MlpOf(mlp, mlp.expert.width).down_proj.slices.size();
  Matrix({kRouter});
  for (int expert = 0; expert < mlp.router.num_experts; ++expert) {
    Matrix({kGate, kUp}, 1, expert);
    Matrix({kDown}, slices, expert);
  }
  Matrix({kSharedGate, kSharedUp});
  Matrix({kSharedDown}, slices);
  Matrix({kSharedScore});
  if (mlp.beside.has_value()) LoadMlp(*mlp.beside);
}

void AdapterLoader::LoadLayer(int layer) {
  using enum TensorRole;
  layer_ = layer;
  const LayerSpec& spec = config_.layers[layer];
  if (spec.attention.recurrent.has_value()) {
    Matrix({kRecurrentQ, kRecurrentK, kRecurrentV});
    Matrix({kRecurrentGate});
    Matrix({kBeta});
    Matrix({kDecay});
    Matrix({kRecurrentOut}, plan_.recurrent_out.slices.size());
  } else if (spec.attention.has_keys()) {
    Matrix({kQGate});
    if (spec.attention.latent.has_value()) {
      Matrix({kQA});
      Matrix({kQB});
      Matrix({kQ});
      Matrix({kKvA});
      LatentMaps(*spec.attention.latent);
    } else {
      Matrix({kQ, kK, kV});
    }
    Matrix({kO}, plan_.o_proj.slices.size());
  }
  std::visit([&](const auto& mlp) { LoadMlp(mlp); }, spec.mlp);
  Matrix({kSideGate});
  Matrix({kSideOut});
}

absl::StatusOr<std::unique_ptr<AdapterWeights>> AdapterWeights::Load(const ModelConfig& config,
                                                                     const ShardPlan& plan,
                                                                     const AdapterSource& source,
                                                                     Backend& backend) {
  AdapterLoader loader(config, plan, source, backend);
  for (int64_t layer = plan.layers.begin; layer < plan.layers.end; ++layer) {
    loader.LoadLayer(static_cast<int>(layer));
  }
  return std::move(loader).Finish();
}

}  // namespace sluice
