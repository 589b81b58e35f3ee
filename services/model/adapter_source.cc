#include "services/model/adapter_source.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "kernels/check.h"
#include "services/model/checkpoint.h"
#include "services/model/json_fields.h"
#include "services/model/model_families.h"
#include "services/model/safetensors.h"
#include "services/model/tensor_convert.h"
#include "services/model/tensor_layout.h"

namespace sluice {
namespace {

constexpr absl::string_view kPrefix = "base_model.model.";
constexpr char kAdapterConfigFile[] = "adapter_config.json";
constexpr char kAdapterWeightsFile[] = "adapter_model.safetensors";

// The two matrices of a module by the ends of their names.
struct FactorName {
  absl::string_view suffix;
  bool is_a;
  bool is_embedding;
};
constexpr std::array<FactorName, 6> kFactorNames = {{{".lora_A.weight", true, false},
                                                     {".lora_B.weight", false, false},
                                                     {".lora_A", true, false},
                                                     {".lora_B", false, false},
                                                     {".lora_embedding_A", true, true},
                                                     {".lora_embedding_B", false, true}}};

// Modules are called the same whatever the files of a model have around their names.
std::string Canonical(absl::string_view name) {
  absl::ConsumePrefix(&name, "language_model.");
  absl::ConsumePrefix(&name, "transformer.");
  if (absl::ConsumePrefix(&name, "model.language_model.")) return absl::StrCat("model.", name);
  return std::string(name);
}

bool IsNumbers(const StoredTensor& tensor) {
  const auto& dtype = tensor.type.dtype;
  return !tensor.type.is_in_blocks() && dtype.has_value() &&
         (*dtype == DType::kF32 || *dtype == DType::kF16 || *dtype == DType::kBF16);
}

// Elements [first, first + out.size()) of a stored tensor.
void ReadElements(const StoredTensor& tensor, int64_t first, absl::Span<float> out) {
  ConvertElements(*tensor.type.dtype, tensor.bytes.data() + first * tensor.type.size, DType::kF32,
                  {reinterpret_cast<std::byte*>(out.data()), out.size() * sizeof(float)});
}

std::vector<float> AllOf(const StoredTensor& tensor) {
  std::vector<float> elements(tensor.bytes.size() / tensor.type.size);
  ReadElements(tensor, 0, absl::MakeSpan(elements));
  return elements;
}

// Of a matrix [rows, columns], its transpose.
std::vector<float> Transposed(const std::vector<float>& matrix, int64_t rows, int64_t columns) {
  std::vector<float> turned(matrix.size());
  Transpose({reinterpret_cast<const std::byte*>(matrix.data()), matrix.size() * sizeof(float)},
            {rows, columns}, sizeof(float),
            {reinterpret_cast<std::byte*>(turned.data()), turned.size() * sizeof(float)});
  return turned;
}

std::string LastPart(const std::string& module) {
  const size_t dot = module.rfind('.');
  return dot == std::string::npos ? module : module.substr(dot + 1);
}

bool IsEmbeddingOrHead(const std::string& module) {
  static const auto& names = *new std::set<std::string>(
      {"embed_tokens", "lm_head", "wte", "embed_in", "embed_out", "tok_embeddings", "output"});
  return names.count(LastPart(module)) > 0;
}

bool IsMatrix(TensorId tensor, const ModelConfig& config) {
  switch (tensor.role) {
    case TensorRole::kPositions:
    case TensorRole::kSideEmbedding:
    case TensorRole::kSideProjection:
    case TensorRole::kQNorm:
    case TensorRole::kKNorm:
    case TensorRole::kConvQ:
    case TensorRole::kConvK:
    case TensorRole::kConvV:
      return false;
    default:
      return ShapeOf(tensor, config).columns > 1;
  }
}

}  // namespace

absl::StatusOr<TensorPlaces> PublishedPlaces(const std::string& model, const ModelConfig& config) {
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(model);
  if (!checkpoint.ok()) return checkpoint.status();
  ModelConfig plain = config;
  plain.quantization.reset();
  return TensorPlaces(plain, *FindModelFamily(plain.model_type)->names, *checkpoint);
}

absl::StatusOr<AdapterSource> AdapterSource::Open(const std::string& folder,
                                                  const ModelConfig& config,
                                                  const TensorPlaces& places,
                                                  const AdapterLimits& limits) {
  if (config.source.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat(folder, ": adapters are for decoders; accepted for model_type \"",
                     config.model_type, "\": none"));
  }
  const std::string config_path = PathIn(folder, kAdapterConfigFile);
  const absl::StatusOr<std::string> text = ReadTextFile(config_path);
  if (!text.ok()) return text.status();
  absl::StatusOr<AdapterConfig> parsed = AdapterConfig::Parse(*text, config_path);
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<TensorFile> weights = OpenSafetensors(PathIn(folder, kAdapterWeightsFile));
  if (!weights.ok()) return weights.status();
  AdapterSource source(*std::move(parsed));
  source.folder_ = folder;
  source.weights_ = std::make_unique<TensorFile>(*std::move(weights));
  if (absl::Status found = source.FindModules(limits); !found.ok()) return found;
  if (absl::Status tied = source.CheckTied(config); !tied.ok()) return tied;
  if (absl::Status bound = source.Bind(config, places); !bound.ok()) return bound;
  return source;
}

absl::Status AdapterSource::FindModules(const AdapterLimits& limits) {
  for (const auto& [stored_name, tensor] : weights_->contents().tensors) {
    absl::string_view name = stored_name;
    absl::ConsumePrefix(&name, kPrefix);
    if (!IsNumbers(tensor)) {
      return absl::InvalidArgumentError(absl::StrCat(weights_->path(), ": ", stored_name, " is ",
                                                     tensor.type.name,
                                                     "; accepted: F32, F16, BF16"));
    }
    const auto factor =
        std::find_if(kFactorNames.begin(), kFactorNames.end(),
                     [&](const FactorName& of) { return absl::EndsWith(name, of.suffix); });
    if (factor == kFactorNames.end()) {
      if (absl::StrContains(name, "lora_")) {
        return absl::UnimplementedError(
            absl::StrCat(weights_->path(), ": ", stored_name,
                         " is no matrix that adapters are computed with; "
                         "accepted: lora_A, lora_B, lora_embedding_A, lora_embedding_B"));
      }
      replaced_[Canonical(
          absl::StrReplaceAll(name, {{".modules_to_save", ""}, {".base_layer", ""}}))] = &tensor;
      continue;
    }
    name.remove_suffix(factor->suffix.size());
    Module& module = modules_[Canonical(name)];
    (factor->is_a ? module.a : module.b) = &tensor;
    module.is_embedding = module.is_embedding || factor->is_embedding;
  }
  for (auto& [name, module] : modules_) {
    if (absl::Status fits = FitModule(name, limits, module); !fits.ok()) return fits;
  }
  return absl::OkStatus();
}

absl::Status AdapterSource::FitModule(const std::string& name, const AdapterLimits& limits,
                                      Module& module) {
  const int rank = config_.RankOf(name);
  const auto failure = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(folder_, ": the adapter of ", name, " ", what));
  };
  if (rank > limits.max_rank) {
    return failure(absl::StrCat("has rank ", rank, "; accepted: at most ", limits.max_rank));
  }
  if (module.a == nullptr || module.b == nullptr) {
    return failure(absl::StrCat("lacks its ", module.a == nullptr ? "lora_A" : "lora_B"));
  }
  for (const auto& [tensor, is_a] : {std::pair(module.a, true), std::pair(module.b, false)}) {
    const auto& shape = tensor->shape;
    const auto wanted = static_cast<uint64_t>(rank);
    if (shape.size() == 2 && shape[is_a ? 0 : 1] == wanted && shape[is_a ? 1 : 0] > 0) continue;
    return failure(absl::StrCat(
        "has a matrix ", is_a ? "A" : "B", " of shape ", ShapeText(shape), "; accepted with rank ",
        rank, ": ",
        is_a ? absl::StrCat("[", rank, ", inputs]") : absl::StrCat("[outputs, ", rank, "]")));
  }
  module.rank = rank;
  module.scale = config_.ScaleOf(name);
  max_rank_ = std::max(max_rank_, rank);
  return absl::OkStatus();
}

absl::Status AdapterSource::CheckTied(const ModelConfig& config) const {
  if (!config.tied_embeddings) return absl::OkStatus();
  const auto refused = [&](const std::string& module) {
    return absl::UnimplementedError(absl::StrCat(
        folder_, ": the adapter changes ", module,
        ", but the model's embedding and head are one matrix; accepted: adapters of neither"));
  };
  for (const auto& [name, module] : modules_) {
    if (IsEmbeddingOrHead(name)) return refused(name);
  }
  for (const auto& [name, tensor] : replaced_) {
    const std::string module = name.substr(0, name.rfind('.'));
    if (IsEmbeddingOrHead(module)) return refused(module);
  }
  return absl::OkStatus();
}

absl::Status AdapterSource::Bind(const ModelConfig& config, const TensorPlaces& places) {
  std::set<std::string> unused;
  for (const auto& [name, module] : modules_) unused.insert(name);
  for (const auto& [name, tensor] : replaced_) unused.insert(name);
  for (const TensorId tensor : AllTensors(config)) {
    if (!IsMatrix(tensor, config)) continue;
    const TensorPlace place = places.Of(tensor);
    if (place.stacked || place.rows_apart || !place.pieces.empty()) continue;
    const std::string name = Canonical(place.name);
    if (replaced_.count(name) > 0) {
      if (absl::Status bound = BindSaved(name, tensor, place); !bound.ok()) return bound;
      unused.erase(name);
    }
    absl::string_view module = name;
    if (!absl::ConsumeSuffix(&module, kWeightSuffix)) continue;
    const auto found = modules_.find(std::string(module));
    if (found == modules_.end()) continue;
    if (absl::Status bound = BindModule(found->first, tensor, place); !bound.ok()) return bound;
    unused.erase(found->first);
  }
  if (unused.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(folder_, ": the adapter changes ", *unused.begin(),
                   unused.size() > 1 ? absl::StrCat(" and ", unused.size() - 1, " more") : "",
                   ", which is no matrix of this model",
                   config_.base_model().empty() ? "" : "; it is for ", config_.base_model()));
}

absl::Status AdapterSource::BindModule(const std::string& name, TensorId tensor,
                                       const TensorPlace& place) {
  const Module& module = modules_.at(name);
  // The file's matrix gains B A, or its transpose where PEFT says so.
  const bool is_flipped = config_.fan_in_fan_out() || module.is_embedding;
  const bool is_transposed = is_flipped != place.transposed;
  const auto rows = static_cast<int64_t>(module.b->shape[0]);
  const auto columns = static_cast<int64_t>(module.a->shape[1]);
  const MatrixShape has = is_transposed ? MatrixShape{columns, rows} : MatrixShape{rows, columns};
  if (!(has == MatrixShape{place.stored.rows, place.stored.columns})) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, ": the adapter of ", name, " is for a matrix [", has.rows, ", ", has.columns,
        "]; this model's is [", place.stored.rows, ", ", place.stored.columns, "]"));
  }
  bound_[tensor] = {.module = name, .place = place, .is_transposed = is_transposed};
  return absl::OkStatus();
}

absl::Status AdapterSource::BindSaved(const std::string& name, TensorId tensor,
                                      const TensorPlace& place) {
  if (tensor.role != TensorRole::kEmbedding && tensor.role != TensorRole::kHead) {
    return absl::UnimplementedError(
        absl::StrCat(folder_, ": the adapter replaces all of ", name,
                     "; accepted in modules_to_save: the embedding and the head"));
  }
  const StoredTensor& saved = *replaced_.at(name);
  const std::vector<uint64_t> wanted = {static_cast<uint64_t>(place.stored.rows),
                                        static_cast<uint64_t>(place.stored.columns)};
  if (saved.shape != wanted) {
    return absl::InvalidArgumentError(absl::StrCat(folder_, ": ", name, " has the shape ",
                                                   ShapeText(saved.shape), "; this model's has ",
                                                   ShapeText(wanted)));
  }
  saved_[tensor] = &saved;
  return absl::OkStatus();
}

LowRankFactors AdapterSource::Read(TensorId tensor, const TensorSlice& slice) const {
  const Bound& bound = bound_.at(tensor);
  const Module& module = modules_.at(bound.module);
  const int64_t rank = module.rank;
  // `in` [rank, inputs] and `out` [outputs, rank], of all of the stored matrix.
  std::vector<float> in = AllOf(*module.a), out = AllOf(*module.b);
  const auto columns = static_cast<int64_t>(module.a->shape[1]);
  const auto rows = static_cast<int64_t>(module.b->shape[0]);
  int64_t num_inputs = columns;
  if (bound.is_transposed) {
    std::vector<float> of_outputs = Transposed(in, rank, columns);
    in = Transposed(out, rows, rank);
    out = std::move(of_outputs);
    num_inputs = rows;
  }
  LowRankFactors factors{.module = bound.module, .rank = module.rank};
  for (int64_t r = 0; r < rank; ++r) {
    const float* const from = in.data() + r * num_inputs;
    factors.a.insert(factors.a.end(), from + slice.columns.begin, from + slice.columns.end);
  }
  factors.b.reserve(slice.rows.size() * rank);
  for (int64_t row = slice.rows.begin; row < slice.rows.end;) {
    const IndexRange stored = bound.place.StoredRows(row, slice.rows.end - row);
    for (int64_t i = stored.begin * rank; i < stored.end * rank; ++i) {
      factors.b.push_back(static_cast<float>(module.scale * double{out[i]}));
    }
    row += stored.size();
  }
  return factors;
}

std::vector<float> AdapterSource::ReadSaved(TensorId tensor, IndexRange rows) const {
  const StoredTensor& saved = *saved_.at(tensor);
  const auto columns = static_cast<int64_t>(saved.shape[1]);
  std::vector<float> elements(rows.size() * columns);
  ReadElements(saved, rows.begin * columns, absl::MakeSpan(elements));
  return elements;
}

}  // namespace sluice
