// ByteLevel: takes the spaces that a token begins or ends with out of its offsets, if trim_offsets.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/post_processors/post_processor.h"

namespace sluice {

// Takes leading and trailing spaces of tokens out of their offsets. A single one at the beginning
// of the text counts as made up where add_prefix_space puts one there.
void TrimOffsets(const PostProcessor::Input& input, bool add_prefix_space, Encoding* encoding);

absl::StatusOr<std::unique_ptr<PostProcessor>> ByteLevelPostProcessorFromJson(
    const JsonPlace& place);

}  // namespace sluice
