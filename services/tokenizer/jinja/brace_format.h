// Python's str.format, with fields looked up as the sandbox does.
#pragma once

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

Value BraceFormat(Run& run, const Text& format, const Arguments& arguments);

}  // namespace sluice::jinja
