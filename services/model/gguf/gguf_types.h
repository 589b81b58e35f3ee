// Element types of GGUF tensors, and how blocks of them become numbers. A block is a run of
// neighbouring weights of one row with their scales. Immutable tables and pure functions.
// Layouts: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md and ggml-common.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sluice {

struct GgufType {
  uint32_t number = 0;    // in files
  const char* name = "";  // "Q4_K"
  int weights = 1;        // of a block
  int bytes = 0;          // of a block
  // Writes the weights of `count` blocks to `out`, rounded to F32 once where they have more bits.
  // Null for integers and F64, which no weights are stored in.
  void (*decode)(const std::byte* blocks, int64_t count, float* out) = nullptr;
};

// nullptr where blocks of that type are not read.
const GgufType* FindGgufType(uint32_t number);

// The name that other programs give a number, such as "IQ2_XS", or the number as text.
std::string GgufTypeName(uint32_t number);

// The types that weights are read from: "F32, F16, ...".
std::string WeightGgufTypes();

}  // namespace sluice
