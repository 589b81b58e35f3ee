// HTML escaping for the filters `escape` and `safe`.
#pragma once

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

Text EscapeHtml(Run& run, const Text& text);
// The string of a value, escaped unless it was already.
Text Escaped(Run& run, const Value& value);

}  // namespace sluice::jinja
