// The flags of `sluice up`: what they hold, whether they go together, and what its processes are told of
// them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "services/options/flags.h"
#include "clients/cli/model_flags.h"
#include "clients/cli/process_plan.h"
#include "services/common/log_format.h"
#include "services/security/credentials.h"

namespace sluice {

struct UpFlags {
  LogFormat log_format = LogFormat::kText;  // of all processes
  ModelFlags model;
  StepFlags steps;
  std::string host = "127.0.0.1";
  int32_t port = 8700;
  PublicListener listener;
  std::string tokens;
  std::string tenants;
  std::string health_listen;
  int32_t metrics_port = 0;
  std::string metrics_host = "127.0.0.1";
  std::string http_hosts;
  bool vllm_metric_names = false;
  std::string otlp_endpoint;
  std::string otlp_tls_ca;
  std::string otlp_token_file;
  std::optional<float> otlp_sample_ratio;
  absl::Duration drain_delay = absl::ZeroDuration();
  absl::Duration drain_timeout = absl::Seconds(1);
  std::optional<int32_t> http_port;
  bool demo = false;
};

// All of them. --termination_log counts from when it is read, for those after it may be wrong.
void AddUpFlags(FlagSet& flags, UpFlags* into);

// INVALID_ARGUMENT naming the flag where one is out of range or lacks another.
absl::Status CheckFlags(const UpFlags& flags);

// "HOST:PORT", in brackets where the host is an address of IPv6.
std::string AddressOf(const std::string& host, int port);

// What the orchestrator is told of its public listener.
std::vector<std::string> ListenerArguments(const UpFlags& flags, const std::string& health_socket);

// What those are told who tell a collector of requests: orchestrator and gateway.
std::vector<std::string> TelemetryArguments(const UpFlags& flags);

// What the gateway is told of its own; nothing where it serves plaintext on loopback.
std::vector<std::string> GatewayArguments(const UpFlags& flags);

}  // namespace sluice
