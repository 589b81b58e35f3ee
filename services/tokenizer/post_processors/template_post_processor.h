// TemplateProcessing: special tokens before, behind and between copies of the text's tokens.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/post_processors/post_processor.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PostProcessor>> TemplatePostProcessorFromJson(
    const JsonPlace& place);

}  // namespace sluice
