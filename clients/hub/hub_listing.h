// What a hub says a model consists of, and which of it is needed to serve the model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

struct HubFile {
  std::string name;    // without folders
  uint64_t size = 0;   // bytes
  std::string sha256;  // of its bytes, 64 lower-case hexadecimal digits; "" where the hub has none
  std::string git_id;  // SHA-1 of "blob SIZE\0" and its bytes, 40 digits, for a file without sha256
};

struct HubListing {
  std::string commit;          // 40 hexadecimal digits
  std::vector<HubFile> files;  // of the top folder
};

// Parses the JSON text of GET /api/models/NAME/revision/REVISION?blobs=true. Files in folders are
// left out. DATA_LOSS, with the member, where it is not what such an answer looks like: no commit,
// no size, names that are given twice or that a file can't have.
absl::StatusOr<HubListing> ParseHubListing(absl::string_view json);

// The files that serve the model: weights in safetensors with their index, configuration, tokenizer
// and chat template. With `patterns` ("*" is any text), those alone whose name matches one.
// NOT_FOUND where there are no weights among them, with the weights that there are.
absl::StatusOr<std::vector<HubFile>> ChooseFiles(const HubListing& listing,
                                                 absl::Span<const std::string> patterns);

}  // namespace sluice
