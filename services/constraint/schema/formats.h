// The formats that JSON Schema defines, as languages. Pure but for `space`.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "services/constraint/regex/expr.h"

namespace sluice {

// NOT_FOUND for names that JSON Schema does not define; UNIMPLEMENTED for those that are not kept
// here: regex, idn-hostname.
absl::StatusOr<ExprId> FormatLanguage(std::string_view name, ExprSpace& space);

}  // namespace sluice
