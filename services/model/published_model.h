// Which matrices of a model that others quantised are quantised, and in which format each is kept.
// Configurations name exceptions in several ways; the files tell.
#pragma once

#include <string>

#include "services/model/checkpoint.h"
#include "services/model/model_config.h"
#include "services/model/published/published_matrix.h"

namespace sluice {

// The files as readers of layouts see them. Borrows the checkpoint.
PackedFiles PackedFilesOf(const Checkpoint& checkpoint);

// Completes config.quantization of a folder whose weights others quantised: its format and its
// exceptions. Leaves it as it is where the weights are missing or malformed: WeightSource::Open
// says so. REQUIRES: the rest of `config` is complete.
void DescribePublishedTensors(const std::string& folder, ModelConfig& config);

// How weights are kept, for the log, such as "gptq, 4 bits in groups of 128: as int4-zp-g128"; ""
// where Sluice wrote the files or they hold plain numbers.
std::string DescribeQuantization(const ModelConfig& config);

}  // namespace sluice
