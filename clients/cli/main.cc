// The `sluice` program: hands its arguments, streams and signals to RunCli.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "clients/cli/cli.h"
#include "clients/cli/command_table.h"
#include "clients/cli/in_process.h"
#include "clients/cli/line_editor.h"
#include "kernels/usable_memory.h"
#include "services/listener/limits.h"
#include "services/model/progress_bar.h"
#include "services/model/shown_bar.h"
#include "services/model_server/gpu_faults.h"
#include "services/process/child_process.h"
#include "services/process/log_prefix.h"
#include "services/rpc/grpc_runtime.h"

namespace {

// Ctrl-C and SIGTERM end what is in progress; where nothing is, and the second time, the program.
// Called before any other thread exists, so that all inherit the mask.
void WatchSignals(sluice::Interrupt& interrupt) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // The line editor takes it, and no other thread may.
  sigset_t resize;
  sigemptyset(&resize);
  sigaddset(&resize, SIGWINCH);
  pthread_sigmask(SIG_BLOCK, &resize, nullptr);
  std::thread([signals, &interrupt] {
    while (true) {
      int signal = 0;
      if (sigwait(&signals, &signal) != 0) continue;
      if (!interrupt.Request(128 + signal)) _exit(128 + signal);
    }
  }).detach();
}

std::string EnvironmentVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// $XDG_STATE_HOME/sluice/chat_history, by default in ~/.local/state; empty without a home.
std::string HistoryFile() {
  namespace fs = std::filesystem;
  const fs::path state = EnvironmentVariable("XDG_STATE_HOME");
  const fs::path home = EnvironmentVariable("HOME");
  if (!state.is_absolute() && !home.is_absolute()) return "";
  const fs::path folder = (state.is_absolute() ? state : home / ".local/state") / "sluice";
  std::error_code error;
  fs::create_directories(folder, error);
  return error ? "" : (folder / "chat_history").string();
}

std::string TempFolder() {
  const std::string folder = EnvironmentVariable("TMPDIR");
  return folder.empty() ? "/tmp" : folder;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto checked = sluice::RunGpuCheck(argc, argv)) return *checked;
  // Never destroyed: the watching thread outlives main.
  static auto& interrupt = *new sluice::Interrupt();
  WatchSignals(interrupt);
  // For what it serves itself, and for the processes that it starts.
  sluice::RaiseDescriptorLimit();
  sluice::LogWhatGrpcSays();
  sluice::AllowProgressBars();
  sluice::SetLogPrefix(sluice::EraseShownBar);
  const std::string api_key = EnvironmentVariable("SLUICE_API_KEY");
  sluice::Environment environment{
      .in = std::cin,
      .out = std::cout,
      .err = std::cerr,
      .interrupt = interrupt,
      .in_is_terminal = isatty(STDIN_FILENO) == 1,
      .out_is_terminal = isatty(STDOUT_FILENO) == 1,
      .err_is_terminal = isatty(STDERR_FILENO) == 1,
      .columns = isatty(STDOUT_FILENO) == 1 ? sluice::TerminalColumns(STDOUT_FILENO) : 100,
      .screen = [] { return sluice::ScreenOf(STDOUT_FILENO); },
      .temp_folder = TempFolder(),
      .memory_limit = sluice::MemoryLimit(""),
      .executable = sluice::OwnProgram(argv[0]),
      .token = api_key.empty() ? EnvironmentVariable("SLUICE_TOKEN") : api_key,
      .api_key = api_key,
      .endpoint = EnvironmentVariable("SLUICE_ENDPOINT"),
      .start_in_process = sluice::StartInProcess,
      .make_line_editor = [] { return sluice::MakeLineEditor(HistoryFile()); },
  };
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return sluice::RunCli(arguments, sluice::AllCommands(), environment);
}
