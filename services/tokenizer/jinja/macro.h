// Macros as values.
#pragma once

#include <memory>

#include "services/tokenizer/jinja/statements.h"

namespace sluice::jinja {

// A macro that sees the variables of `scope`. Missing after a failure.
Value MakeMacro(Run& run, const MacroCode& code, std::shared_ptr<Scope> scope);

}  // namespace sluice::jinja
