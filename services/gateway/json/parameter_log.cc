#include "services/gateway/json/parameter_log.h"

#include "kernels/check.h"

namespace sluice::gateway {
namespace {

thread_local ParameterLog* current_log = nullptr;

// All elements of an array have one path.
std::string WithoutIndices(absl::string_view path) {
  std::string result;
  bool inside = false;
  for (const char c : path) {
    if (c == ']') inside = false;
    if (!inside) result += c;
    if (c == '[') inside = true;
  }
  return result;
}

}  // namespace

ParameterLog::ParameterLog() {
  SLUICE_CHECK(current_log == nullptr);
  current_log = this;
}

ParameterLog::~ParameterLog() { current_log = nullptr; }

ParameterLog* ParameterLog::Current() { return current_log; }

ParameterNote& ParameterLog::Note(absl::string_view path, const ParameterNote& first) {
  return notes_.emplace(WithoutIndices(path), first).first->second;
}

void ParameterLog::NoteRequired(absl::string_view path) {
  const auto note = notes_.find(WithoutIndices(path));
  if (note != notes_.end()) note->second.required = true;
}

}  // namespace sluice::gateway
