// Status for an invalid field of a request.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {

// INVALID_ARGUMENT "<field> is <value>; accepted: <accepted>".
inline absl::Status Refuse(absl::string_view field, const absl::AlphaNum& value,
                           absl::string_view accepted) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value.Piece(), "; accepted: ", accepted));
}

}  // namespace sluice
