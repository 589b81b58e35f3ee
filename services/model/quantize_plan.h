// The plan of QuantizeModel: source, destination, format and file of each tensor. Values; nothing
// of a tensor is read.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/weight_format.h"
#include "services/model/model_config.h"
#include "services/model/safetensors_writer.h"
#include "services/model/tensor_place.h"
#include "services/model/weights.h"

namespace sluice {

// A tensor of the model on its way from one file to another.
struct Transfer {
  TensorPlace from;
  TensorPlace to;  // rows of `from`, in another order of bytes
  WeightFormat format;

  bool is_matrix() const { return to.stored.columns > 1; }
  bool quantized() const { return to.quantized.has_value(); }
  uint64_t num_bytes() const {
    return static_cast<uint64_t>(to.stored.rows) * RowBytes(format, to.stored.columns);
  }
  // Of what is written: the quotients and their scales, or the tensor itself.
  std::vector<TensorHeader> Headers() const;
};

struct QuantizedFile {
  std::string name;
  std::vector<Transfer> transfers;
};

// All tensors of a model, in the order of its layers, each once.
std::vector<Transfer> PlanQuantization(const ModelConfig& config, const WeightSource& source,
                                       WeightFormat format);

// In order, as many to a file as it holds: at most `max_bytes`, or one tensor.
std::vector<QuantizedFile> FilesOf(const std::vector<Transfer>& transfers, uint64_t max_bytes);

}  // namespace sluice
