#include <string>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "services/gateway/demo/process_kill.h"
#include "services/gateway/page/page_flags.h"
#include "services/security/read_file.h"

namespace sluice::gateway {

const Programs kLinkedGateway = kDemoGateway;

absl::StatusOr<PageOptions> PageOptionsOf(const OptionValues& values) {
  const std::string path = values.Get<std::string>("demo_token_file");
  if (path.empty()) return PageOptions();
  const absl::StatusOr<std::string> text = ReadRegularFile(path);
  if (!text.ok()) {
    return absl::Status(text.status().code(),
                        absl::StrCat("--demo_token_file: ", path, ": ", text.status().message()));
  }
  PageOptions options = {.demo_token = std::string(absl::StripAsciiWhitespace(*text)),
                         .kill = KillSibling};
  if (!options.demo_token.empty()) return options;
  return absl::InvalidArgumentError(absl::StrCat("--demo_token_file: ", path, " is empty"));
}

}  // namespace sluice::gateway
