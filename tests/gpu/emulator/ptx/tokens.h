// The words of PTX.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"

namespace sluice::cuda::emulator {

struct Token {
  absl::string_view
      text;  // a name with its dots and %, a number, or one character; of the given text
  int line = 0;
};

// Comments and white space are between them; a text in quotes is one.
std::vector<Token> TokensOf(absl::string_view ptx);

}  // namespace sluice::cuda::emulator
