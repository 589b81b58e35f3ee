// How the matrices of a model are quantised in files that Sluice did not write: what config.json
// says of them. A plain value.
#pragma once

#include <cstdint>

namespace sluice {

// Where a matrix X of N outputs and K inputs is in the files, G being its groups of inputs.
enum class PublishedLayout : uint8_t {
  kFp8,           // services/model/published_fp8.h
  kAwq,           // awq.h
  kGptq,          // gptq.h
  kPackedInt,     // packed_int.h: compressed-tensors "pack-quantized"
  kPlainInt,      // plain_int.h: compressed-tensors "int-quantized"
  kNvFp4,         // fp4.h: compressed-tensors "nvfp4-pack-quantized"
  kMxFp4,         // fp4.h: compressed-tensors "mxfp4-pack-quantized", and gpt-oss' experts
  kBitsAndBytes,  // bits_and_bytes.h: four bits
  kGguf,  // services/model/gguf_matrix.h: blocks of GGUF files, each tensor in its own format
};

struct PublishedScheme {
  PublishedLayout layout = PublishedLayout::kFp8;
  int bits = 8;             // of a weight
  int64_t group_size = 0;   // inputs of a group; 0: all inputs of an output are one
  bool symmetric = true;    // compressed-tensors: no zero points are stored
  bool is_ordered = false;  // inputs of a group need not be neighbours (desc_act, actorder)
  int zero_offset = 0;      // added to stored zero points: 1 in files of GPTQ's first version
  int64_t block_rows = 128, block_columns = 128;  // of FP8 that has scales of blocks

  friend constexpr bool operator==(const PublishedScheme&, const PublishedScheme&) = default;
};

}  // namespace sluice
