// Reader of the safetensors format: 8 bytes of little-endian header length, a JSON header that maps
// tensor names to {dtype, shape, data_offsets}, then the tensors' bytes without gaps.
// Layout: https://huggingface.co/docs/safetensors. Opening reads the header's pages only.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "services/model/tensor_file.h"

namespace sluice {

// Parses a whole file held in memory, whose header's "__metadata__" becomes the metadata; the
// tensors borrow from `file`. `source` names it in messages. INVALID_ARGUMENT, naming the tensor
// and the offsets, where the file is truncated, the header's length absurd (over 100 MB or beyond
// the file), its JSON malformed or with a key twice, a dtype unknown, a shape negative or
// overflowing, a size other than shape and dtype give, or offsets overlap, leave a gap or don't end
// with the file.
absl::StatusOr<TensorFileContents> ParseSafetensors(absl::Span<const std::byte> file,
                                                    const std::string& source);

// Maps and parses `path`. NOT_FOUND where there is no such file, else as ParseSafetensors.
absl::StatusOr<TensorFile> OpenSafetensors(const std::string& path);

}  // namespace sluice
