// A pattern as tokenizer.json spells it: {"Regex": "..."} or {"String": "..."}.
#pragma once

#include "absl/status/statusor.h"
#include "services/tokenizer/regex/regex.h"

namespace sluice {

struct JsonPlace;

// INVALID_ARGUMENT or UNIMPLEMENTED naming file, path and value, as Regex::Compile.
absl::StatusOr<Regex> RegexFromJson(const JsonPlace& pattern);

}  // namespace sluice
