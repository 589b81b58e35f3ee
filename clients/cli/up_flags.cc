#include "clients/cli/up_flags.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "services/messages/metadata.h"
#include "services/security/credentials.h"
#include "services/telemetry/telemetry_flags.h"
#include "services/telemetry/telemetry_options.h"

namespace sluice {
namespace {

PublicListener ListenerOf(const OptionValues& values) {
  return {.tls = {.certificate = values.Get<std::string>("tls_cert"),
                  .key = values.Get<std::string>("tls_key"),
                  .authority = values.Get<std::string>("tls_ca")},
          .tokens = !values.Get<std::string>("tokens").empty() || values.IsGiven("api_key"),
          .insecure = values.Get<bool>("insecure_public")};
}

// What is the gateway's is refused where there is none, rather than without effect.
absl::Status CheckGatewayIsThere(const OptionValues& values) {
  const auto needs = [](const char* name) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", name, " is about HTTP, which needs --http_port"));
  };
  if (values.Get<bool>("demo")) return needs("demo");
  if (values.IsGiven("http_hosts")) return needs("http_hosts");
  if (values.IsGiven("cors_origin")) return needs("cors_origin");
  if (values.IsGiven("tool_parser")) return needs("tool_parser");
  if (values.IsGiven("max_body_mib")) return needs("max_body_mib");
  if (values.IsGiven("batch_dir")) return needs("batch_dir");
  return absl::OkStatus();
}

absl::Status CheckKeys(const OptionValues& values) {
  if (!values.IsGiven("api_key")) return absl::OkStatus();
  if (!values.Get<std::string>("tokens").empty()) {
    return absl::InvalidArgumentError("--api_key and --tokens were both given; choose one");
  }
  const std::string key = values.Get<std::string>("api_key");
  if (!key.empty() && IsMetadataValue(key)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--api_key: the key is empty, or has a character that is not printable ASCII");
}

// Lines of batches run with a key of their own where callers have to show one.
absl::Status CheckBatches(const OptionValues& values) {
  const bool has_folder = values.IsGiven("batch_dir");
  for (const OptionName<void> name :
       {OptionName<void>("batch_token_file"), OptionName<void>("batch_concurrency"),
        OptionName<void>("batch_quota_mib")}) {
    if (values.IsGiven(name) && !has_folder) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", name.text(), " is about batches, which need --batch_dir"));
    }
  }
  const bool asks_for_keys = !values.Get<std::string>("tokens").empty();
  if (!has_folder || !asks_for_keys || values.IsGiven("batch_token_file")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--batch_dir with --tokens needs --batch_token_file: the key that lines of batches run with");
}

absl::Status CheckGateway(const OptionValues& values) {
  if (!values.IsGiven("http_port")) return CheckGatewayIsThere(values);
  const PublicListener listener = ListenerOf(values);
  if (listener.tls.authority.empty() || listener.tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "--http_port: over HTTP clients come with tokens, not with certificates: set --tokens or "
      "--api_key");
}

}  // namespace

absl::Status CheckUpFlags(const ModelFlags& flags) {
  if (absl::Status status = CheckModelFlags(flags); !status.ok()) return status;
  if (absl::Status status = CheckGateway(flags.values); !status.ok()) return status;
  if (absl::Status status = CheckKeys(flags.values); !status.ok()) return status;
  if (absl::Status status = CheckBatches(flags.values); !status.ok()) return status;
  const absl::Status telemetry =
      MakeTelemetryOptions("up", TelemetryFlagsOf(flags.values), ProcessEnvironment()).status();
  if (!telemetry.ok()) return telemetry;
  const std::string address =
      AddressOf(flags.values.Get<std::string>("host"), flags.values.Get<int>("port"));
  return PublicServerCredentials(address, ListenerOf(flags.values)).status();
}

std::string AddressOf(const std::string& host, int port) {
  const bool is_ipv6 = absl::StrContains(host, ':');
  return is_ipv6 ? absl::StrCat("[", host, "]:", port) : absl::StrCat(host, ":", port);
}

}  // namespace sluice
