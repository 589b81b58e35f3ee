// Tensors from arbitrary bytes: what passes the check must have the bytes that its shape says.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "services/rows/tensor.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::v1::Tensor tensor;
  if (!tensor.ParseFromArray(data, static_cast<int>(size))) return 0;
  for (const int64_t cols : {1, 3, 64}) {
    if (!sluice::CheckMatrix(tensor, sluice::DType::kF32, cols).ok()) continue;
    if (tensor.data().size() != static_cast<size_t>(tensor.shape(0)) * cols * sizeof(float))
      abort();
  }
  return 0;
}
