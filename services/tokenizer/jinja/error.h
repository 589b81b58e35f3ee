// Error in a template or its context, with its position. A plain value.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace sluice::jinja {

// Counted from 1; columns count bytes.
struct Place {
  int line = 1;
  int column = 1;
};

struct Error {
  enum class Kind {
    kSyntax,     // the template is none
    kUndefined,  // something that is undefined was used
    kRaised,     // the template called raise_exception: `message` is what it gave
    kType,       // a value of the wrong type
    kValue,      // a value out of range
    kRuntime,    // anything else that a template can do wrong
    kSecurity,   // refused by the sandbox
    kLimit,      // one of Limits
  };

  Kind kind = Kind::kRuntime;
  std::string message;  // Python's words where there are such
  Place place;

  // "NAME:LINE:COLUMN: MESSAGE"; RESOURCE_EXHAUSTED for kLimit, else INVALID_ARGUMENT.
  absl::Status ToStatus(std::string_view name) const;
};

// The error that a status of this library was made of; nullopt for other statuses.
std::optional<Error> ErrorOf(const absl::Status& status);

}  // namespace sluice::jinja
