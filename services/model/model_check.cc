#include "services/model/model_check.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "services/model/checkpoint.h"
#include "services/model/gguf_names.h"
#include "services/model/model_families.h"
#include "services/model/tensor_convert.h"
#include "services/model/tensor_place.h"

namespace sluice {
namespace {

// At either end of a tensor.
constexpr size_t kSampled = 16;

bool IsReadable(const StoredTensor& tensor) {
  const auto type = tensor.type.dtype;
  return tensor.type.is_in_blocks() || type == DType::kF32 || type == DType::kF16 ||
         type == DType::kBF16;
}

bool AreFinite(DType type, absl::Span<const std::byte> elements) {
  std::vector<float> values(elements.size() / SizeOf(type));
  ConvertElements(
      type, elements.data(), DType::kF32,
      absl::MakeSpan(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)));
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

bool AreBlocksFinite(const StoredType& type, const std::byte* block) {
  std::vector<float> values(static_cast<size_t>(type.block));
  type.decode(block, 1, values.data());
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

bool LooksFinite(const StoredTensor& tensor) {
  if (tensor.type.is_in_blocks()) {
    return tensor.bytes.empty() ||
           (AreBlocksFinite(tensor.type, tensor.bytes.data()) &&
            AreBlocksFinite(tensor.type, tensor.bytes.end() - tensor.type.size));
  }
  const size_t bytes = std::min(tensor.bytes.size(), kSampled * SizeOf(*tensor.type.dtype));
  return AreFinite(*tensor.type.dtype, tensor.bytes.first(bytes)) &&
         AreFinite(*tensor.type.dtype, tensor.bytes.last(bytes));
}

}  // namespace

int LayerOf(const std::string& tensor) {
  for (absl::string_view part : absl::StrSplit(tensor, '.')) {
    int number = 0;
    if (absl::SimpleAtoi(part, &number) && number >= 0) return number;
  }
  return -1;
}

absl::StatusOr<std::vector<std::string>> CheckModelFiles(const std::string& folder,
                                                         const ModelConfig& config) {
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  std::optional<TensorPlaces> places;
  const ModelFamily* family = FindModelFamily(config.model_type);
  if (family != nullptr) {
    places.emplace(config,
                   checkpoint->is_gguf() ? GgufTensorNames(config, *checkpoint) : *family->names,
                   *checkpoint);
  }
  int last_layer = -1;
  for (const TensorFile& file : checkpoint->files()) {
    for (const auto& [name, tensor] : file.contents().tensors) {
      if (!absl::EndsWith(name, ".weight") || !IsReadable(tensor)) continue;
      if (LayerOf(name) >= 0 && places.has_value() && !places->IsOfLayer(name)) continue;
      last_layer = std::max(last_layer, LayerOf(name));
      if (LayerOf(name) >= config.num_layers() || LooksFinite(tensor)) continue;
      return absl::DataLossError(
          absl::StrCat(file.path(), ": tensor \"", name,
                       "\" holds numbers that are not finite (NaN or infinity)"));
    }
  }
  std::vector<std::string> odd;
  if (last_layer >= config.num_layers()) {
    odd.push_back(absl::StrCat(checkpoint->is_gguf() ? "the metadata has " : "config.json has ",
                               config.num_layers(), " layers, the weights have ", last_layer + 1,
                               ": the last ones are not used"));
  }
  return odd;
}

}  // namespace sluice
