// Calls that begin with their name, as Mistral's models of 2025 write them: name{..}, name[ARGS]{..} or
// name[CALL_ID]id[ARGS]{..}, each behind [TOOL_CALLS] where the decoder shows that token.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace sluice::gateway {

struct NamedCallHead {
  enum class Verdict {
    kNone,   // the text begins with something else
    kMaybe,  // more of it has to come
    kCall,
  };
  Verdict verdict = Verdict::kNone;
  // Of kCall:
  std::string name;
  size_t size = 0;  // where the arguments begin
};

// What a text begins with, behind white space.
NamedCallHead NamedCallAt(absl::string_view text);

}  // namespace sluice::gateway
