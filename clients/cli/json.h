// Helpers for JSON output. Objects keep the order in which their fields are added.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "sluice/v1/generation.pb.h"

namespace sluice {

using Json = nlohmann::ordered_json;

// A number with the fewest digits that read back as `value`; null where it is not finite.
Json JsonOf(float value);

// [{"token_id":1,"logprob":-0.5}, ...]
Json JsonOf(const google::protobuf::RepeatedPtrField<v1::TokenLogprob>& top);

// One line, without its end, fit for a terminal: control characters are escapes, those from U+007F
// to U+009F too. Bytes that are not UTF-8 become U+FFFD.
std::string DumpLine(const Json& json);

}  // namespace sluice
