// Which matrices of a model that others quantised are quantised, and in which format each is kept.
// Configurations name exceptions in several ways; the files tell.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/published/published_matrix.h"
#include "services/model/tensor_place.h"

namespace sluice {

// The files as readers of layouts see them. Borrows the checkpoint.
PackedFiles PackedFilesOf(const Checkpoint& checkpoint);

// The matrix at a place, if the files hold it as others quantise; null where it is plain or where
// other code reads it (FP8). Errors as PublishedMatrix::Open, or as Checkpoint::Find for blocks of
// GGUF of another shape.
absl::StatusOr<std::unique_ptr<PublishedMatrix>> OpenPublishedAt(const Checkpoint& checkpoint,
                                                                 const TensorPlace& place,
                                                                 const PublishedScheme& scheme);

// Completes config.quantization of a folder whose weights others quantised: its format and its
// exceptions; and makes it for a GGUF file some of whose blocks have a format of ours. Leaves it as it is where the weights are missing or malformed: WeightSource::Open
// says so. REQUIRES: the rest of `config` is complete.
void DescribePublishedTensors(const std::string& folder, ModelConfig& config);

// How weights are kept, for the log, such as "gptq, 4 bits in groups of 128: as int4-zp-g128"; ""
// where Sluice wrote the files or they hold plain numbers.
std::string DescribeQuantization(const ModelConfig& config);

}  // namespace sluice
