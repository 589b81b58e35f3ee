// Python's arithmetic, attribute access and subscription.
#pragma once

#include <string_view>
#include <vector>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };

Value Apply(Run& run, BinaryOperator operation, const Value& a, const Value& b);
Value Negate(Run& run, const Value& value);
Value Plus(Run& run, const Value& value);

// The strings of all, joined.
Value Concatenate(Run& run, const std::vector<Value>& values);
// `text` `count` times; none for a negative count.
Value RepeatText(Run& run, const Text& text, Int count);

// object.name and object[key] as Jinja has them: each tries the other, too. Undefined where there
// is neither.
Value GetAttribute(Run& run, const Value& object, std::string_view name);
Value GetItem(Run& run, const Value& object, const Value& key);
// object[begin:end:step]; kMissing for those left out.
Value GetSlice(Run& run, const Value& object, const Value& begin, const Value& end,
               const Value& step);

Value CallValue(Run& run, const Value& callee, const Arguments& arguments);

}  // namespace sluice::jinja
