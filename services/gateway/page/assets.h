// The files of the page, which are part of the program.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

struct Asset {
  const char* path;  // where it is served
  const char* content_type;
  absl::string_view content;
};

const std::vector<Asset>& Assets();

}  // namespace sluice::gateway
