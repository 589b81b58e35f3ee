// Python's format specification mini-language, which `%` formatting shares.
#pragma once

#include <optional>
#include <string_view>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

struct FormatSpec {
  char32_t fill = ' ';
  char align = 0;  // one of <>=^; 0 for the type's own
  char sign = '-';
  bool is_alternate = false;  // "#"
  Int width = 0;
  char grouping = 0;  // "," or "_"
  std::optional<Int> precision;
  char type = 0;
};

// The part of a replacement field behind the colon. nullopt with an error for what is none.
std::optional<FormatSpec> ParseFormatSpec(Run& run, std::string_view text);

// `value` laid out: numbers by type, strings cut to the precision, both filled up to the width.
Text FormatValue(Run& run, const Value& value, const FormatSpec& spec);
Text FormatText(Run& run, const Text& text, const FormatSpec& spec);

}  // namespace sluice::jinja
