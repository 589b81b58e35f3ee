// Jinja's tests, applied with `is`.
#pragma once

#include <string_view>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

using Test = bool (*)(Run& run, const Value& value, const Arguments& arguments);

// nullptr where there is none of that name.
Test FindTest(std::string_view name);

}  // namespace sluice::jinja
