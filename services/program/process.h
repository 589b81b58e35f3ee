// What the main() of every process of a replica does around its server: flags, signals, exit codes.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "services/options/option_values.h"
#include "services/rpc/running_service.h"
#include "services/rpc/transport.h"

namespace sluice {

// Everything that the process was told, and, of that, what all processes of a replica have.
struct ProcessOptions {
  // REQUIRES: the values are of a process of a replica.
  ProcessOptions(const OptionValues& all, std::string own_program, std::vector<int> own_cpus);

  OptionValues values;
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

// Parses the flags of program `own`, starts the service and serves until SIGINT or SIGTERM. `usage`
// is what --help says first. Returns the exit code: 0 after a signal, 1 where the service can't
// start (the reason is on stderr), 2 for bad flags.
int RunProcess(int argc, char** argv, Programs own, const char* usage, const StartService& start);

}  // namespace sluice
