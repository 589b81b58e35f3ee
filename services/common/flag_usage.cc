#include "services/common/flag_usage.h"

#include "absl/flags/usage_config.h"
#include "absl/strings/match.h"

namespace sluice {
namespace {

bool IsOurFlagFile(absl::string_view file) {
  return absl::EndsWith(file, "/main.cc") || absl::EndsWith(file, "/process.cc") ||
         absl::EndsWith(file, "/log_flags.cc") || absl::EndsWith(file, "/telemetry_flags.cc");
}

}  // namespace

void ShowOwnFlags() {
  absl::FlagsUsageConfig config;
  config.contains_help_flags = IsOurFlagFile;
  config.contains_helpshort_flags = IsOurFlagFile;
  config.normalize_filename = PathInRepository;
  absl::SetFlagsUsageConfig(config);
}

std::string PathInRepository(absl::string_view file) {
  for (const absl::string_view folder : {"/services/", "/orchestrator/"}) {
    const size_t at = file.rfind(folder);
    if (at != absl::string_view::npos) return std::string(file.substr(at + 1));
  }
  return std::string(file);
}

}  // namespace sluice
