// A matrix in blocks of a GGUF file as a PublishedMatrix: its numbers, and its blocks as groups of
// the formats with zero points or scales of two levels, where these hold the same numbers.
#pragma once

#include <memory>

#include "services/model/published/published_matrix.h"
#include "services/model/tensor_file.h"

namespace sluice {

// `tensor` is `stored`, as files of others see it, with rows of `columns` weights.
// REQUIRES: stored.type.is_in_blocks(), columns is a multiple of its blocks.
std::unique_ptr<PublishedMatrix> OpenGgufMatrix(PackedTensor tensor, const StoredTensor& stored,
                                                int64_t columns);

}  // namespace sluice
