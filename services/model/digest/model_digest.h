// How processes tell that their folders hold the same weights and the same tokenizer, where
// identity.h tells that they have the same configuration.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Of all bytes of the folder's safetensors files, or of a GGUF model's, with their names. Reads
// them once with all CPUs, with progress on stderr; what it finds of large files is kept in the
// user's cache folder. Every process asks once, at start. NOT_FOUND, INVALID_ARGUMENT,
// PERMISSION_DENIED or DATA_LOSS where the files can't be read.
absl::StatusOr<std::string> WeightsDigest(const std::string& folder);

// Of all files of the folder that say how text becomes tokens: vocabularies, configurations and chat
// templates; of a GGUF file those values of its metadata. Empty where it has none. Errors likewise.
absl::StatusOr<std::string> TokenizerDigest(const std::string& folder);

}  // namespace sluice
