// Folders and small models that tests of services/model make for themselves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "services/model/model_config.h"
#include "services/model/safetensors_writer.h"
#include "services/model/tensor_place.h"

namespace sluice::testing {

// A new folder below the system's temporary one; removed with all it holds.
class TempFolder {
 public:
  TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder();

  const std::string& path() const { return path_; }
  std::string PathOf(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& bytes) const;

 private:
  std::string path_;
};

// A tensor with memory of its own.
struct OwnedTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<uint64_t> shape;
  std::vector<std::byte> bytes;

  TensorToWrite ToWrite() const { return {name, dtype, shape, bytes}; }
};

// Element i of tensor `name` is a small number that both determine, exact in F32, F16 and BF16.
float ElementOf(const std::string& name, size_t i);
OwnedTensor MakeTensor(const std::string& name, DType dtype, std::vector<uint64_t> shape);

// The bytes of a safetensors file: a header (its length put before it) and data.
std::string SafetensorsBytes(const std::string& header, const std::string& data);
// The bytes that WriteSafetensors would write.
std::string SafetensorsBytes(absl::Span<const OwnedTensor> tensors,
                             const std::map<std::string, std::string>& metadata = {});

// A Llama model with H 16, 4 heads, 2 KV heads, head_dim 4, intermediate 24, 3 layers, V 10, biases
// on every projection and a head of its own.
std::string TinyLlamaConfig();
std::vector<OwnedTensor> TinyLlamaTensors(DType dtype);

// Where the files of a model have all its tensors: each stored one once, whole, by name.
std::vector<TensorPlace> StoredTensors(const ModelConfig& config);
// The shape that a file has for it.
std::vector<uint64_t> StoredShape(const TensorPlace& place);
// All those tensors, one of `dtype` for each.
std::vector<OwnedTensor> TensorsOf(const ModelConfig& config, DType dtype);

}  // namespace sluice::testing
