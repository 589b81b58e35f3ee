#include "services/model/quantize_plan.h"

#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "services/model/quantized_tensor.h"
#include "services/model/tensor_layout.h"

namespace sluice {
namespace {

Transfer TransferOf(const ModelConfig& config, const WeightSource& source,
                    const TensorPlaces& target, WeightFormat format, TensorId tensor) {
  Transfer transfer{source.places().Of(tensor).Whole(), target.Of(tensor).Whole(),
                    FormatOf(tensor, config, format)};
  // Vectors stay as they are; F16, which no format is, fits F32.
  if (ShapeOf(tensor, config).columns == 1 && source.StoredType(transfer.from) == DType::kBF16) {
    transfer.format = WeightFormat::kBF16;
  }
  return transfer;
}

}  // namespace

std::vector<TensorHeader> Transfer::Headers() const {
  const auto header = [](const std::string& name, const std::string& type, MatrixShape shape,
                         uint64_t bytes) {
    std::vector<uint64_t> sizes = {static_cast<uint64_t>(shape.rows)};
    if (shape.columns > 1) sizes.push_back(static_cast<uint64_t>(shape.columns));
    return TensorHeader{name, type, std::move(sizes), bytes};
  };
  const MatrixShape shape = to.stored;
  if (!quantized()) {
    return {header(to.name, std::string(Name(format)), shape, num_bytes())};
  }
  const MatrixShape quotients = QuotientShape(format, shape);
  const MatrixShape scales = ScaleShape(format, shape);
  return {header(to.name, QuotientType(format), quotients, quotients.size()),
          header(to.name + kScaleSuffix, kScaleType, scales, 2 * scales.size())};
}

// Fused projections and tied tensors come by several roles and are listed once.
std::vector<Transfer> PlanQuantization(const ModelConfig& config, const WeightSource& source,
                                       WeightFormat format) {
  const TensorPlaces target = source.places().Quantized({.format = format});
  std::vector<Transfer> transfers;
  for (const TensorId tensor : AllTensors(config)) {
    transfers.push_back(TransferOf(config, source, target, format, tensor));
  }
  std::set<std::string> names;
  std::erase_if(transfers,
                [&](const Transfer& transfer) { return !names.insert(transfer.to.name).second; });
  return transfers;
}

std::vector<QuantizedFile> FilesOf(const std::vector<Transfer>& transfers, uint64_t max_bytes) {
  std::vector<QuantizedFile> files;
  uint64_t bytes = 0;
  for (const Transfer& transfer : transfers) {
    if (files.empty() || bytes + transfer.num_bytes() > max_bytes) {
      files.emplace_back();
      bytes = 0;
    }
    files.back().transfers.push_back(transfer);
    bytes += transfer.num_bytes();
  }
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].name = files.size() == 1
                        ? "model.safetensors"
                        : absl::StrFormat("model-%05d-of-%05d.safetensors", i + 1, files.size());
  }
  return files;
}

}  // namespace sluice
