// The settings of Metaspace, pre-tokenizer and decoder alike: spaces become a visible character,
// and words begin with one.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

struct JsonPlace;

struct MetaspaceOptions {
  enum class Prepend { kAlways, kNever, kFirst };  // kFirst: at the beginning of the text alone

  std::string replacement;  // of a space; one character
  Prepend prepend = Prepend::kAlways;
  bool split = true;  // before each replacement
};

// INVALID_ARGUMENT naming file, path and value.
absl::StatusOr<MetaspaceOptions> MetaspaceFromJson(const JsonPlace& place);

}  // namespace sluice
