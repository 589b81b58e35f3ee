// `sluice token`: API keys for the clients of a server.
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "clients/cli/commands.h"
#include "clients/cli/outcome.h"
#include "services/common/random.h"
#include "services/options/flags.h"
#include "services/security/token_file.h"

namespace sluice {
namespace {

// 192 random bits, with the prefix by which people and scanners for secrets know keys.
std::string NewKey() {
  std::string key = "sk-sluice-";
  for (int i = 0; i < 3; ++i) absl::StrAppend(&key, absl::Hex(RandomNumber(), absl::kZeroPad16));
  return key;
}

int MakeToken(const std::string& tenant, const std::string& file, Environment& environment) {
  const std::string key = NewKey();
  const absl::StatusOr<std::string> line = TokenLine(key, tenant);
  if (!line.ok()) return Fail(line.status(), environment);
  if (file.empty()) {
    environment.err << "line for the file of `sluice up --tokens FILE`:\n" << *line << std::endl;
  } else if (const absl::Status added = AppendTokenLine(file, *line); !added.ok()) {
    return Fail(added, environment);
  }
  environment.out << key << "\n";
  return Succeed(environment);
}

}  // namespace

int TokenCommand(absl::Span<const std::string> arguments, Environment& environment) {
  std::optional<std::string> tenant;
  std::string file;
  FlagSet flags("token", "new [flags] TENANT",
                "Prints a new API key of the tenant, which is nowhere else: a server's file of "
                "tokens holds the SHA-256 of each. A running server accepts the key at once; to "
                "revoke one, delete its line.");
  flags.Add(
      "tokens", "FILE",
      "The file that `sluice up --tokens FILE` reads; it is made where there is none, for its "
      "owner alone to read. Default: the line for it is printed on stderr.",
      &file);
  flags.AddPositional(&tenant);
  const bool begins_with_flag = !arguments.empty() && absl::StartsWith(arguments[0], "-");
  if (!begins_with_flag) {
    if (arguments.empty() || arguments[0] != "new") {
      const std::string unexpected =
          arguments.empty() ? "" : absl::StrCat("unexpected argument \"", arguments[0], "\"; ");
      return FailUsage(
          "token",
          absl::InvalidArgumentError(absl::StrCat(unexpected, "accepted: sluice token new TENANT")),
          environment);
    }
    arguments.remove_prefix(1);
  }
  if (const std::optional<int> exit = ParseOrExit(flags, arguments, environment)) return *exit;
  if (!tenant.has_value()) {
    return FailUsage("token", absl::InvalidArgumentError("a TENANT is missing, such as \"search\""),
                     environment);
  }
  return MakeToken(*tenant, file, environment);
}

}  // namespace sluice
