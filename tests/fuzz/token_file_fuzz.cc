// Fuzzes the reading of files of bearer tokens: the answer is the entries, each as the format
// promises it, or a status that names a line.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "kernels/check.h"
#include "services/security/token_file.h"

namespace {

bool IsName(const std::string& name) {
  return !name.empty() && name.size() <= 64 &&
         std::none_of(name.begin(), name.end(),
                      [](unsigned char c) { return c <= ' ' || c > '~'; });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto entries = sluice::ParseTokens(text);
  if (!entries.ok()) {
    SLUICE_CHECK(absl::StartsWith(entries.status().message(), "line "));
    return 0;
  }
  const auto lines = std::count(text.begin(), text.end(), '\n') + 1;
  SLUICE_CHECK(static_cast<int64_t>(entries->size()) <= lines);
  for (const sluice::TokenEntry& entry : *entries) SLUICE_CHECK(IsName(entry.caller.tenant));
  return 0;
}
