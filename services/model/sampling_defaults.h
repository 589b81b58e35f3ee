// Sampling defaults suggested by a model's authors: the fields of generation_config.json that the
// table of sampling parameters names.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kernels/sampling_options/sampling_options.h"

namespace sluice {

// Of a folder's generation_config.json, or of what a GGUF file says in its place; neutral where the
// file is missing or says nothing. do_sample false means temperature 0. INVALID_ARGUMENT names file, field, value and what is accepted.
absl::StatusOr<SamplingOptions> LoadSamplingDefaults(const std::string& model);

// The same from the text of the file, which messages call `source`; empty: no such file.
absl::StatusOr<SamplingOptions> ParseSamplingDefaults(const std::string& text,
                                                      const std::string& source);

}  // namespace sluice
