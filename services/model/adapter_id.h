// Names an adapter's content between the orchestrator and the stages: unlike a client's name it never
// comes to stand for another one. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace sluice {

// Of the `serial`-th adapter that was loaded, from `folder`.
inline std::string AdapterIdOf(uint64_t serial, const std::string& folder) {
  return absl::StrCat(serial, " ", folder);
}

// The folder to read it from; "" where it is no such id.
inline std::string FolderOfAdapter(const std::string& id) {
  const size_t space = id.find(' ');
  return space == std::string::npos ? "" : id.substr(space + 1);
}

}  // namespace sluice
