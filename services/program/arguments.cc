#include "services/program/arguments.h"

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/strip.h"
#include "services/common/status.h"
#include "services/options/flags.h"
#include "services/process/log.h"
#include "services/process/log_format.h"
#include "services/process/termination_log.h"
#include "services/rpc/grpc_runtime.h"

namespace sluice {
namespace {

constexpr size_t kHelpWidth = 96;

// Where it stands does not matter: other flags may be wrong.
absl::Status OpenTerminationLog(const std::vector<std::string>& arguments) {
  constexpr absl::string_view kFlag = "--termination_log";
  std::string path;
  for (size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view rest = arguments[i];
    if (!absl::ConsumePrefix(&rest, kFlag)) continue;
    if (absl::ConsumePrefix(&rest, "=")) {
      path = std::string(rest);
    } else if (rest.empty() && i + 1 < arguments.size()) {
      path = arguments[i + 1];
    }
  }
  return Annotate(SetTerminationLog(path), kFlag);
}

}  // namespace

std::optional<int> ParseArguments(int argc, char** argv, const char* description,
                                  OptionValues& values) {
  const std::string program = std::filesystem::path(argv[0]).filename().string();
  FlagSet flags(program, "[flags]", description);
  flags.AddOptions(values.program(), [&values](absl::string_view name, const std::string& text) {
    return values.Set(name, text);
  });
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  absl::Status parsed = OpenTerminationLog(arguments);
  parsed.Update(flags.Parse(arguments));
  if (!parsed.ok()) return FailAtStart(argv[0], 2, parsed.message());
  if (flags.help_requested()) {
    std::fputs(flags.Help(kHelpWidth).c_str(), stdout);
    return 0;
  }
  LogWhatGrpcSays();
  SetMinimumLogLevel(*ParseLogLevel(values.Get<std::string>("log_level")));
  SetLogFormat(*ParseLogFormat(values.Get<std::string>("log_format")));
  return std::nullopt;
}

int FailAtStart(const char* program, int exit_status, absl::string_view reason) {
  std::fprintf(stderr, "%s: %s\n", program, std::string(reason).c_str());
  WriteTerminationLog(reason);
  return exit_status;
}

}  // namespace sluice
