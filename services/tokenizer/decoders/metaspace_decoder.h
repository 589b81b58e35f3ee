// Metaspace: its visible character becomes a space again; in the first token, where one was put in
// front, nothing.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "services/tokenizer/decoders/decoder.h"

namespace sluice {

absl::StatusOr<std::unique_ptr<Decoder>> MetaspaceDecoderFromJson(const JsonPlace& place);

}  // namespace sluice
