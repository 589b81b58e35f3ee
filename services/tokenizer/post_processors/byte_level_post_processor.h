// ByteLevel: takes the spaces that a token begins or ends with out of its offsets, if trim_offsets.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/post_processors/post_processor.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PostProcessor>> ByteLevelPostProcessorFromJson(
    const JsonPlace& place);

}  // namespace sluice
