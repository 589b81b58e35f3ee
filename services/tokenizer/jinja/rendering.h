// Output of a template. A plain value.
#pragma once

#include <string>
#include <vector>

#include "services/tokenizer/jinja/text.h"

namespace sluice::jinja {

struct Rendering {
  std::string text;
  // Bytes made of what is untrusted. Rising, neither empty nor touching one another.
  std::vector<TextRange> untrusted;
  // What `generation` blocks wrote.
  std::vector<TextRange> generations;
};

}  // namespace sluice::jinja
