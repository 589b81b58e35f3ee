// Fuzzes the reading of files of bearer tokens: every line is an entry as the format promises it,
// a fault that names the line, or nothing.
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
  const sluice::ParsedTokens parsed = sluice::ParseTokens(text);
  const auto lines = static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  SLUICE_CHECK(parsed.entries.size() + parsed.faults.size() <= lines);
  for (const std::string& fault : parsed.faults) SLUICE_CHECK(absl::StartsWith(fault, "line "));
  for (const sluice::TokenEntry& entry : parsed.entries) SLUICE_CHECK(IsName(entry.caller.tenant));
  return 0;
}
