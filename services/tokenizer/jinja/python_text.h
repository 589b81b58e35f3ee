// Python's str() and repr(). Bytes that came with the context stay marked.
#pragma once

#include <string>
#include <string_view>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

Text Str(Run& run, const Value& value);
Text Repr(Run& run, const Value& value);

// repr of a str, for messages.
std::string ReprString(std::string_view text);
// The shortest that reads back the same, in Python's layout: "1.0", "1e-05", "inf".
std::string ReprFloat(double value);

}  // namespace sluice::jinja
