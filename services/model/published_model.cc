#include "services/model/published_model.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/model/gguf_matrix.h"
#include "services/model/gguf_model.h"
#include "services/model/gguf_names.h"
#include "services/model/model_families.h"
#include "services/model/published_fields.h"
#include "services/model/storage_type.h"
#include "services/model/tensor_place.h"
#include "services/model/weight_rule.h"

namespace sluice {
namespace {

using Exception = Quantization::Exception;

// Whether it is one of the matrices that a format is chosen for.
bool IsMatrixOfLayer(TensorId tensor, const ModelConfig& config) {
  using enum TensorRole;
  switch (tensor.role) {
    case kRouter:
    case kSharedScore:
    case kQNorm:
    case kKNorm:
    case kBeta:
    case kConvQ:
    case kConvK:
    case kConvV:
      return false;  // F32 always
    case kDecay:
      return config.recurrent()->kind == RecurrenceKind::kStateSpace;
    default:
      return tensor.role >= kFirstLayerRole && ShapeOf(tensor, config).columns > 1;
  }
}

// Tensors of a layer that have one format: rows of one packed matrix, and those of all experts.
bool HaveOneFormat(TensorId a, TensorId b) {
  using enum TensorRole;
  const auto group = [](TensorId tensor) {
    switch (tensor.role) {
      case kQ:
      case kK:
      case kV:
        return 1;
      case kGate:
      case kUp:
        return 2;
      case kSharedGate:
      case kSharedUp:
        return 3;
      case kDown:
        return tensor.expert >= 0 ? 4 : 0;
      case kRecurrentQ:
      case kRecurrentK:
      case kRecurrentV:
        return 5;
      default:
        return 0;
    }
  };
  return a.layer == b.layer && group(a) != 0 && group(a) == group(b);
}

// Decides about one tensor at a time.
class TensorDescriber {
 public:
  TensorDescriber(const Checkpoint& checkpoint, const ModelConfig& config, WeightFormat native)
      : checkpoint_(checkpoint),
        config_(config),
        native_(native),
        places_(config, *FindModelFamily(config.model_type)->names, checkpoint) {}

  // The format that a tensor is kept in.
  WeightFormat FormatFor(TensorId tensor) const {
    const auto matrix =
        OpenPublishedAt(checkpoint_, places_.Of(tensor), config_.quantization->scheme);
    if (matrix.ok() && *matrix == nullptr) return WeightFormat::kBF16;
    const WeightFormat format = FormatOf(tensor, config_, native_);
    if (!matrix.ok() || (*matrix)->IsReadableAs(format)) return format;
    return WeightFormat::kF32;
  }

 private:
  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const WeightFormat native_;
  const TensorPlaces places_;
};

// Matrices that are packed together but kept in different formats are kept as F32.
void AgreeOnFormats(std::vector<Exception>& formats) {
  const std::vector<Exception> before = formats;
  for (Exception& one : formats) {
    for (const Exception& other : before) {
      if (HaveOneFormat(one.tensor, other.tensor) && one.format != other.format) {
        one.format = WeightFormat::kF32;
      }
    }
  }
}

const char* MethodOf(PublishedLayout layout) {
  switch (layout) {
    case PublishedLayout::kFp8:
      return "fp8";
    case PublishedLayout::kAwq:
      return "awq";
    case PublishedLayout::kGptq:
      return "gptq";
    case PublishedLayout::kPackedInt:
      return "pack-quantized";
    case PublishedLayout::kPlainInt:
      return "int-quantized";
    case PublishedLayout::kNvFp4:
      return "nvfp4-pack-quantized";
    case PublishedLayout::kMxFp4:
      return "mxfp4";
    case PublishedLayout::kBitsAndBytes:
      return "bitsandbytes";
    case PublishedLayout::kGguf:
      return "gguf";
  }
  return "";
}

std::vector<Exception> Sorted(std::vector<Exception> exceptions) {
  std::ranges::sort(exceptions, std::less<TensorId>(), &Exception::tensor);
  return exceptions;
}

// ---- GGUF: blocks in formats of their own, tensor by tensor ----

// Formats that hold blocks, the narrowest first.
constexpr WeightFormat kBlockFormats[] = {
    WeightFormat::kMxFp4,     WeightFormat::kInt4KG128, WeightFormat::kInt4Zp, WeightFormat::kInt4K,
    WeightFormat::kInt6KG128, WeightFormat::kInt6K,     WeightFormat::kInt8Zp};

class BlockDescriber {
 public:
  BlockDescriber(const Checkpoint& checkpoint, const ModelConfig& config)
      : checkpoint_(checkpoint),
        config_(config),
        places_(config, GgufTensorNames(config, checkpoint), checkpoint) {}

  // The narrowest format that holds the numbers of all these tensors, which are packed as one.
  WeightFormat FormatFor(const std::vector<TensorId>& tensors) const {
    for (const WeightFormat format : kBlockFormats) {
      if (std::ranges::all_of(tensors, [&](TensorId each) { return Holds(format, each); })) {
        return format;
      }
    }
    const bool are_bf16 = std::ranges::all_of(
        tensors, [&](TensorId each) { return StoredType(each) == DType::kBF16; });
    return are_bf16 ? WeightFormat::kBF16 : WeightFormat::kF32;
  }

 private:
  std::optional<DType> StoredType(TensorId tensor) const {
    const StoredTensor* stored = checkpoint_.Peek(places_.Of(tensor).name);
    return stored == nullptr ? std::nullopt : stored->type.dtype;
  }
  bool Holds(WeightFormat format, TensorId tensor) const {
    if (!IsCutIntoGroups(tensor, format)) return false;
    const auto matrix =
        OpenPublishedAt(checkpoint_, places_.Of(tensor), {.layout = PublishedLayout::kGguf});
    return matrix.ok() && *matrix != nullptr && (*matrix)->IsReadableAs(format);
  }
  // An embedding's rows are gathered whole.
  bool IsCutIntoGroups(TensorId tensor, WeightFormat format) const {
    if (tensor.role != TensorRole::kEmbedding) return FormatOf(tensor, config_, format) == format;
    return config_.hidden_size % TraitsOf(format).group == 0;
  }

  const Checkpoint& checkpoint_;
  const ModelConfig& config_;
  const TensorPlaces places_;
};

// Tensors that have one format, together.
std::vector<std::vector<TensorId>> PackedTogether(const std::vector<TensorId>& tensors) {
  std::vector<std::vector<TensorId>> groups;
  for (const TensorId tensor : tensors) {
    const auto same = std::ranges::find_if(groups, [&](const std::vector<TensorId>& group) {
      return HaveOneFormat(group.front(), tensor);
    });
    if (same == groups.end()) {
      groups.push_back({tensor});
    } else {
      same->push_back(tensor);
    }
  }
  return groups;
}

// The matrices of a model, in groups that are packed as one.
std::vector<std::vector<TensorId>> MatricesOf(const ModelConfig& config) {
  std::vector<std::vector<TensorId>> groups = {{{TensorRole::kEmbedding}}};
  if (config.has_head) groups.push_back({{TensorRole::kHead}});
  if (config.position == PositionKind::kLearned) groups.push_back({{TensorRole::kPositions}});
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    std::vector<TensorId> tensors = TensorsOfLayer(layer, config);
    std::erase_if(tensors, [&](TensorId tensor) { return !IsMatrixOfLayer(tensor, config); });
    std::ranges::move(PackedTogether(tensors), std::back_inserter(groups));
  }
  return groups;
}

// Leaves config as it is where no format of ours holds any block: they are decoded then.
void DescribeBlocks(const std::string& path, ModelConfig& config) {
  const auto checkpoint = Checkpoint::Open(path);
  if (!checkpoint.ok()) return;
  const BlockDescriber describer(*checkpoint, config);
  std::vector<Exception> formats;
  std::map<WeightFormat, int64_t> weights;  // that have a format
  for (const std::vector<TensorId>& group : MatricesOf(config)) {
    const WeightFormat format = describer.FormatFor(group);
    for (const TensorId tensor : group) {
      formats.push_back({tensor, format});
      if (IsQuantized(format)) weights[format] += ShapeOf(tensor, config).size();
    }
  }
  if (weights.empty()) return;
  const auto most =
      std::ranges::max_element(weights, {}, [](const auto& each) { return each.second; });
  Quantization quantization{.format = most->first, .published = true};
  quantization.scheme.layout = PublishedLayout::kGguf;
  config.quantization = quantization;
  std::erase_if(formats, [&](const Exception& of) {
    return of.format == FormatOf(of.tensor, config, quantization.format);
  });
  config.quantization->exceptions = Sorted(std::move(formats));
}

}  // namespace

PackedFiles PackedFilesOf(const Checkpoint& checkpoint) {
  return {.folder = checkpoint.folder(), .find = [&checkpoint](const std::string& name) {
            PackedTensor found;
            const StoredTensor* tensor = checkpoint.Peek(name);
            if (tensor == nullptr) return found;
            found = {.file = checkpoint.PathOf(name),
                     .name = name,
                     .type = tensor->type.name,
                     .shape = tensor->shape,
                     .bytes = tensor->bytes};
            return found;
          }};
}

absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenPublishedAt(const Checkpoint& checkpoint,
                                                                 const TensorPlace& place,
                                                                 const PublishedScheme& scheme) {
  std::unique_ptr<PublishedMatrix> none;
  if (place.transposed || place.rows_apart || !place.pieces.empty()) return none;
  if (scheme.layout == PublishedLayout::kGguf) {
    const StoredTensor* stored = checkpoint.Peek(place.name);
    if (stored == nullptr || !stored->type.is_in_blocks() || stored->shape.size() < 2) return none;
    const auto checked = checkpoint.Find(place.name, place.FileShape());
    if (!checked.ok()) return checked.status();
    return OpenGgufMatrix(PackedFilesOf(checkpoint).find(place.name), *checked,
                          place.stored.columns);
  }
  const PackedFiles files = PackedFilesOf(checkpoint);
  if (!PublishedMatrix::IsIn(files, place.name, scheme)) return none;
  return PublishedMatrix::Open(files, place.name, place.stored.rows, place.stored.columns, scheme,
                               place.matrices);
}

void DescribePublishedTensors(const std::string& folder, ModelConfig& config) {
  if (IsGgufPath(folder)) return DescribeBlocks(folder, config);
  if (!config.quantization.has_value() || !config.quantization->published) return;
  Quantization& quantization = *config.quantization;
  if (quantization.scheme.layout == PublishedLayout::kFp8) return;
  if (!Checkpoint::IsIn(folder)) return;
  const auto checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return;
  const WeightFormat native = NativeFormatOf(quantization.scheme, /*in_order=*/true);
  ModelConfig plain = config;  // without exceptions
  plain.quantization->format = native;
  const TensorDescriber describer(*checkpoint, plain, native);
  std::vector<Exception> formats;
  for (int layer = 0; layer < config.num_layers(); ++layer) {
    std::vector<Exception> of_layer;
    for (const TensorId tensor : TensorsOfLayer(layer, config)) {
      if (IsMatrixOfLayer(tensor, config)) {
        of_layer.push_back({tensor, describer.FormatFor(tensor)});
      }
    }
    AgreeOnFormats(of_layer);
    formats.insert(formats.end(), of_layer.begin(), of_layer.end());
  }
  const bool none_is_native = std::all_of(formats.begin(), formats.end(), [](const Exception& of) {
    return of.format == WeightFormat::kF32;
  });
  quantization.format = none_is_native ? WeightFormat::kF32 : native;
  if (!IsQuantized(quantization.format)) return;
  std::erase_if(formats, [&](const Exception& of) {
    return of.format == FormatOf(of.tensor, plain, native);
  });
  const TensorId head{TensorRole::kHead};
  if (!config.tied_embeddings && config.has_head) {
    if (const WeightFormat format = describer.FormatFor(head); format != WeightFormat::kBF16) {
      formats.push_back({head, format});
    }
  }
  quantization.exceptions = Sorted(std::move(formats));
}

std::string DescribeQuantization(const ModelConfig& config) {
  if (!config.quantization.has_value() || !config.quantization->published) return "";
  const Quantization& quantization = *config.quantization;
  const PublishedScheme& scheme = quantization.scheme;
  const std::string groups = scheme.group_size == 0
                                 ? ""
                                 : absl::StrCat(" in groups of ", scheme.group_size, " inputs",
                                                scheme.is_ordered ? " in any order" : "");
  const bool is_wide = quantization.format == WeightFormat::kF32;
  if (scheme.layout == PublishedLayout::kGguf) return "";  // WeightSource::KeptBlocks
  return absl::StrCat(
      MethodOf(scheme.layout), ", ", scheme.bits, " bits", groups, ": kept as ",
      TypeName(quantization.format), is_wide ? ", as no narrower format is exact" : "",
      quantization.exceptions.empty()
          ? ""
          : absl::StrCat("; ", quantization.exceptions.size(), " matrices in other formats"));
}

}  // namespace sluice
