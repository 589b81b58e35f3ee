// What the main() of every service does around its server: common flags, signals, exit codes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/common/running_service.h"
#include "services/common/transport.h"

namespace sluice {

// --model, --rope_scaling, --cpus, --listen, --hang_timeout and --tls_*; RunProcess sees to the others of its flags
// itself.
struct ProcessOptions {
  std::string program;  // its path: OwnProgram (child_process.h)
  std::string model;
  std::string rope_scaling;  // the model's own where empty
  std::vector<int> cpus;     // the process keeps to them already; empty: to none in particular
  std::string listen;
  absl::Duration hang_timeout;
  TlsFiles tls;
};

using StartService =
    std::function<absl::StatusOr<std::unique_ptr<RunningService>>(const ProcessOptions&)>;

// Parses the flags, starts the service and serves until SIGINT or SIGTERM. `usage` is what --help
// says first. Returns the exit code: 0 after a signal, 1 where the service can't start (the reason
// is on stderr), 2 for bad flags.
int RunProcess(int argc, char** argv, const char* usage, const StartService& start);

}  // namespace sluice
