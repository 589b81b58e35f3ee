// Tokens into a tree, as Jinja's grammar has it.
#pragma once

#include <memory>
#include <string_view>

#include "services/tokenizer/jinja/ast.h"
#include "services/tokenizer/jinja/error.h"
#include "services/tokenizer/jinja/limits.h"

namespace sluice::jinja {

// False with `error` filled where `source` is no template. REQUIRES: valid UTF-8.
bool Parse(std::string_view source, const Limits& limits, Body* body, Error* error);

}  // namespace sluice::jinja
