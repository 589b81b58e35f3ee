// BertProcessing and RobertaProcessing: a token before the text and one behind it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/post_processors/post_processor.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<PostProcessor>> BertPostProcessorFromJson(const JsonPlace& place);

// The same with offsets trimmed as by ByteLevel.
absl::StatusOr<std::unique_ptr<PostProcessor>> RobertaPostProcessorFromJson(const JsonPlace& place);

// A token before the text and one behind it; kNoToken for none.
std::unique_ptr<PostProcessor> MakeFramingPostProcessor(TokenId before, TokenId behind);

}  // namespace sluice
