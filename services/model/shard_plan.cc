#include "services/model/shard_plan.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/weight_format.h"

namespace sluice {
namespace {

constexpr int kRankCounts[] = {1, 2, 4, 8};
constexpr int kMaxSlices = 8;

// Part `index` of [0, size) cut into `parts` as even as possible, the first ones an element longer.
IndexRange EvenPart(int size, int parts, int index) {
  const int base = size / parts;
  const int extra = size % parts;
  const int begin = index * base + std::min(index, extra);
  return {begin, begin + base + (index < extra ? 1 : 0)};
}

// Why `ranks` can't share an MLP, or "" where they can.
std::string ReasonAgainst(const DenseMlpSpec& mlp, int ranks) {
  if (mlp.width % ranks == 0) return "";
  return absl::StrCat("it does not divide intermediate_size, ", mlp.width);
}
std::string ReasonAgainst(const NoMlpSpec&, int) { return ""; }
std::string ReasonAgainst(const MixtureSpec& mixture, int ranks) {
  if (mixture.beside.has_value()) {
    const std::string reason = ReasonAgainst(*mixture.beside, ranks);
    if (!reason.empty()) return reason;
  }
  if (NumSlicesOf(mixture) % ranks == 0) return "";
  return absl::StrCat("it does not divide ", NumSlicesOf(mixture),
                      ", the parts that the columns of experts, ", mixture.expert.width,
                      ", are cut into");
}

// Why `ranks` can't share layers with states, or "" where they can.
std::string ReasonAgainst(const RecurrentSpec& recurrent, int ranks) {
  if (recurrent.num_heads % ranks != 0) {
    return absl::StrCat("it does not divide the heads of recurrent layers, ", recurrent.num_heads);
  }
  if (recurrent.num_key_heads % ranks != 0 && ranks % recurrent.num_key_heads != 0) {
    return absl::StrCat("it neither divides the key heads of recurrent layers, ",
                        recurrent.num_key_heads, ", nor is a multiple of them");
  }
  if (recurrent.norm_groups > 1 && recurrent.norm_groups % ranks != 0) {
    return absl::StrCat("it does not divide the groups of the norm of recurrent layers, ",
                        recurrent.norm_groups);
  }
  return "";
}

// Why `ranks` can't share the model, or "" where they can. `ranks` is one of kRankCounts.
std::string ReasonAgainst(const ModelConfig& config, int ranks) {
  if (config.num_heads % ranks != 0) {
    return absl::StrCat("it does not divide num_attention_heads, ", config.num_heads);
  }
  if (const RecurrentSpec* recurrent = config.recurrent(); recurrent != nullptr) {
    if (std::string reason = ReasonAgainst(*recurrent, ranks); !reason.empty()) return reason;
  }
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    const int kv_heads = config.kv_heads_of(layer);
    if (kv_heads % ranks != 0 && ranks % kv_heads != 0) {
      return absl::StrCat("it neither divides num_key_value_heads, ", kv_heads,
                          ", nor is a multiple of them");
    }
    const std::string reason = std::visit(
        [ranks](const auto& mlp) { return ReasonAgainst(mlp, ranks); }, config.layers[layer].mlp);
    if (!reason.empty()) return reason;
  }
  return "";
}

absl::Status CheckPlacement(const ModelConfig& config, const ShardPlacement& placement) {
  const int ranks = placement.num_ranks;
  const bool known =
      std::find(std::begin(kRankCounts), std::end(kRankCounts), ranks) != std::end(kRankCounts);
  const std::string reason =
      known ? ReasonAgainst(config, ranks) : "it is no power of two from 1 to 8";
  if (!reason.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor parallelism over ", ranks, " ranks: ", reason,
        "; accepted for this model: ", absl::StrJoin(AcceptedRankCounts(config), ", ")));
  }
  const int tied = FirstSharedLayer(config);
  const int most = std::min(config.num_layers(), tied + 1);
  if (placement.num_stages < 1 || placement.num_stages > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pipeline of ", placement.num_stages, " stages; accepted for this model: 1 to ", most,
        most < config.num_layers()
            ? absl::StrCat(": layers from ", tied, " on share keys and values")
            : ", its layers"));
  }
  if (placement.stage < 0 || placement.stage >= placement.num_stages) {
    return absl::InvalidArgumentError(absl::StrCat("stage ", placement.stage, " of ",
                                                   placement.num_stages, "; accepted: 0 to ",
                                                   placement.num_stages - 1));
  }
  if (placement.rank < 0 || placement.rank >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", placement.rank, " of ", ranks, "; accepted: 0 to ", ranks - 1));
  }
  return absl::OkStatus();
}

// The KV heads of `kv_heads` that query heads `heads` of `num_heads` read: query head h reads KV head
// h / (Nq / Nkv).
IndexRange KvHeadsThatRead(int num_heads, int kv_heads, IndexRange heads) {
  const int group = num_heads / kv_heads;
  return {heads.begin / group, (heads.end - 1) / group + 1};
}

// As even as layers that share keys and values allow, which are the last stage's.
IndexRange LayersOf(const ModelConfig& config, const ShardPlacement& placement) {
  const int layers = config.num_layers(), stages = placement.num_stages;
  const int tied = FirstSharedLayer(config);
  if (stages == 1 || EvenPart(layers, stages, stages - 1).begin <= tied) {
    return EvenPart(layers, stages, placement.stage);
  }
  if (placement.stage == stages - 1) return {tied, layers};
  return EvenPart(tied, stages - 1, placement.stage);
}

ReductionSlices SlicesOf(int num_slices, int k, const ShardPlacement& placement) {
  return {.num_slices = num_slices,
          .width = k / num_slices,
          .slices = EvenPart(num_slices, placement.num_ranks, placement.rank)};
}

}  // namespace

IndexRange KvHeadsOf(int layer, const ModelConfig& config, const ShardPlan& plan) {
  return KvHeadsThatRead(config.num_heads, config.kv_heads_of(layer), plan.heads);
}

int FirstSharedLayer(const ModelConfig& config) {
  int first = config.num_layers();
  for (const LayerSpec& layer : config.layers) {
    if (layer.attention.kv_source >= 0) first = std::min(first, layer.attention.kv_source);
  }
  return first;
}

int NumReductionSlices(int count) {
  int slices = kMaxSlices;
  while (count % slices != 0) slices /= 2;
  return slices;
}

MlpPart ShardPlan::MlpOf(int width) const {
  return {.columns = EvenPart(width, placement.num_ranks, placement.rank),
          .down_proj = SlicesOf(NumReductionSlices(width), width, placement)};
}

MlpPart ShardPlan::MlpOf(const MixtureSpec& mixture, int width) const {
  return {.columns = EvenPart(width, placement.num_ranks, placement.rank),
          .down_proj = SlicesOf(NumSlicesOf(mixture), width, placement)};
}

int NumSlicesOf(const MixtureSpec& mixture) {
  const int width = mixture.expert.width, shared = mixture.shared_width;
  const bool has_groups = width % kWeightGroup == 0 && shared % kWeightGroup == 0;
  const int columns = std::gcd(width, shared);
  const int of_groups =
      has_groups ? NumReductionSlices(columns / static_cast<int>(kWeightGroup)) : 1;
  return of_groups > 1 ? of_groups : NumReductionSlices(columns);
}

absl::StatusOr<ShardPlan> MakeShardPlan(const ModelConfig& config,
                                        const ShardPlacement& placement) {
  if (absl::Status checked = CheckPlacement(config, placement); !checked.ok()) return checked;
  const int ranks = placement.num_ranks;
  ShardPlan plan;
  plan.placement = placement;
  plan.layers = LayersOf(config, placement);
  plan.heads = EvenPart(config.num_heads, ranks, placement.rank);
  plan.kv_heads = KvHeadsThatRead(config.num_heads, config.num_kv_heads, plan.heads);
  const int value_dim = config.latent() != nullptr ? config.latent()->value_dim : config.head_dim;
  plan.o_proj =
      SlicesOf(NumReductionSlices(config.num_heads), config.num_heads * value_dim, placement);
  if (const RecurrentSpec* recurrent = config.recurrent(); recurrent != nullptr) {
    plan.recurrent_heads = EvenPart(recurrent->num_heads, ranks, placement.rank);
    plan.recurrent_key_heads =
        KvHeadsThatRead(recurrent->num_heads, recurrent->num_key_heads, plan.recurrent_heads);
    plan.recurrent_out =
        SlicesOf(NumReductionSlices(recurrent->num_heads), recurrent->values_width(), placement);
  }
  return plan;
}

std::vector<int> AcceptedRankCounts(const ModelConfig& config) {
  std::vector<int> accepted;
  for (const int ranks : kRankCounts) {
    if (ReasonAgainst(config, ranks).empty()) accepted.push_back(ranks);
  }
  return accepted;
}

}  // namespace sluice
