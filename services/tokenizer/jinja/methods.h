// The methods of Python's str, dict, list, tuple and range that a template may call.
#pragma once

#include <array>
#include <string_view>

#include "services/tokenizer/jinja/run.h"

namespace sluice::jinja {

using Method = Value (*)(Run& run, const Value& self, const Arguments& arguments);

bool HasMethod(const Value& object, std::string_view name);
// object.name, ready to be called. REQUIRES: HasMethod.
Value MakeMethod(Run& run, const Value& object, std::string_view name);

// Methods that would change their object: the sandbox keeps them back.
bool IsRefusedMethod(const Value& object, std::string_view name);

struct MethodEntry {
  std::string_view name;
  Method method;
};

// Tables of one kind's methods; nullptr where there is none of that name.
Method FindStringMethod(std::string_view name);
Method FindStringTest(std::string_view name);
Method FindContainerMethod(Value::Kind kind, std::string_view name);

template <size_t size>
Method FindIn(const std::array<MethodEntry, size>& entries, std::string_view name) {
  for (const MethodEntry& entry : entries) {
    if (entry.name == name) return entry.method;
  }
  return nullptr;
}

}  // namespace sluice::jinja
