// Replace: a string or the matches of a regular expression, within each token.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

// `pattern` becomes `content`. What may be the beginning of `pattern` is held back up to the
// token's end. REQUIRES: `pattern` is not empty.
std::unique_ptr<Decoder> MakeReplaceDecoder(std::string pattern, std::string content);

absl::StatusOr<std::unique_ptr<Decoder>> ReplaceDecoderFromJson(const JsonPlace& place);

}  // namespace sluice
