// Fuzzes the safetensors parser: whatever a file holds, it is refused with a status or its tensors
// lie within it.
#include <cstddef>
#include <cstdint>

#include "kernels/check.h"
#include "services/model/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto file = absl::MakeConstSpan(reinterpret_cast<const std::byte*>(data), size);
  const auto contents = sluice::ParseSafetensors(file, "fuzzed");
  if (!contents.ok()) return 0;
  for (const auto& [name, tensor] : contents->tensors) {
    SLUICE_CHECK(tensor.bytes.empty() ||
                 (tensor.bytes.data() >= file.data() &&
                  tensor.bytes.data() + tensor.bytes.size() <= file.data() + file.size()));
  }
  return 0;
}
