#include "services/model/published_model.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
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
      : files_(PackedFilesOf(checkpoint)),
        config_(config),
        native_(native),
        places_(config, *FindModelFamily(config.model_type)->names, checkpoint) {}

  // The format that a tensor is kept in.
  WeightFormat FormatFor(TensorId tensor) const {
    const TensorPlace place = places_.Of(tensor);
    const PublishedScheme& scheme = config_.quantization->scheme;
    if (!PublishedMatrix::IsIn(files_, place.name, scheme)) return WeightFormat::kBF16;
    const WeightFormat format = FormatOf(tensor, config_, native_);
    const auto matrix =
        PublishedMatrix::Open(files_, place.name, place.stored.rows, place.stored.columns, scheme);
    if (!matrix.ok() || (*matrix)->IsReadableAs(format)) return format;
    return WeightFormat::kF32;
  }

 private:
  const PackedFiles files_;
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
      return "mxfp4-pack-quantized";
    case PublishedLayout::kBitsAndBytes:
      return "bitsandbytes";
  }
  return "";
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

void DescribePublishedTensors(const std::string& folder, ModelConfig& config) {
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
  if (!config.tied_embeddings) {
    if (const WeightFormat format = describer.FormatFor(head); format != WeightFormat::kBF16) {
      formats.push_back({head, format});
    }
  }
  quantization.exceptions = std::move(formats);
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
  return absl::StrCat(
      MethodOf(scheme.layout), ", ", scheme.bits, " bits", groups, ": kept as ",
      TypeName(quantization.format), is_wide ? ", as no narrower format is exact" : "",
      quantization.exceptions.empty()
          ? ""
          : absl::StrCat("; ", quantization.exceptions.size(), " matrices in other formats"));
}

}  // namespace sluice
