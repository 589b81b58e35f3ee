// Bodies of multipart/form-data (RFC 7578): what forms and OpenAI's clients send files in.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice::gateway {

struct FormPart {
  std::string name;
  std::string filename;       // empty where it is no file
  absl::string_view content;  // within the body
};

// The parts of `body`, which stays. INVALID_ARGUMENT where `content_type` is no
// multipart/form-data with a boundary, or the body breaks off or has a part without a name.
absl::StatusOr<std::vector<FormPart>> ReadForm(absl::string_view content_type,
                                               absl::string_view body);

}  // namespace sluice::gateway
