// Strip: takes a character away from the beginning and the end of each token, up to so many times.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

// Characters at the end are held back until the token has ended.
absl::StatusOr<std::unique_ptr<Decoder>> StripDecoderFromJson(const JsonPlace& place);

}  // namespace sluice
