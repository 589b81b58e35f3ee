// Python's `format % values`.
#pragma once

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

// `values`: a tuple, a dict for "%(name)s", or the one value.
Value PercentFormat(Run& run, const Text& format, const Value& values);

}  // namespace sluice::jinja
