#include "services/process/process_end.h"

#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/debugging/symbolize.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "services/common/steady_time.h"
#include "services/process/log.h"
#include "services/process/stderr_writer.h"
#include "services/process/termination_log.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

constexpr int kExitCode = 70;  // EX_SOFTWARE of sysexits.h
constexpr absl::Duration kPatience = absl::Milliseconds(200);
constexpr absl::Duration kReaderPatience = absl::Seconds(2);
// Of the handler and of the system's way into it.
constexpr int kOwnFrames = 2;

// One that nobody else takes: those from SIGRTMIN up are in use by debuggers and sanitizers.
int Signal() { return SIGRTMAX - 1; }

// What the thread asked writes into. Given out to one thread at a time.
struct Answer {
  std::array<void*, 64> frames = {};
  std::atomic<int> num_frames = -1;  // -1: it has not answered
};
std::atomic<Answer*> asked{nullptr};

void WriteFrames(int) {
  Answer* const answer = asked.load();
  if (answer == nullptr) return;
  answer->num_frames = backtrace(answer->frames.data(), static_cast<int>(answer->frames.size()));
}

std::string LineOf(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

std::string NameOf(void* address) {
  std::array<char, 256> name = {};
  // The address of a call's return is behind it: the one before is within.
  if (absl::Symbolize(static_cast<char*>(address) - 1, name.data(), name.size())) {
    return name.data();
  }
  return absl::StrCat("0x", absl::Hex(reinterpret_cast<uintptr_t>(address)));
}

std::string StackOf(pid_t thread) {
  // Left to the thread where it answers late.
  auto* const answer = new Answer;
  asked = answer;
  if (syscall(SYS_tgkill, getpid(), thread, Signal()) != 0) return "  it has ended\n";
  const SteadyTime until = SteadyTime::Now() + kPatience;
  while (answer->num_frames < 0 && SteadyTime::Now() < until) absl::SleepFor(absl::Milliseconds(1));
  asked = nullptr;
  if (answer->num_frames < 0) {
    return absl::StrCat("  it does not answer; in the kernel: ",
                        LineOf(absl::StrCat("/proc/self/task/", thread, "/wchan")), "\n");
  }
  std::string stack;
  for (int i = kOwnFrames; i < answer->num_frames; ++i) {
    absl::StrAppend(&stack, "  ", NameOf(answer->frames[i]), "\n");
  }
  return stack;
}

}  // namespace

std::string StacksOfAllThreads() {
  // Loads what it needs, which a handler must not.
  std::array<void*, 1> frame = {};
  backtrace(frame.data(), 1);
  struct sigaction action = {};
  action.sa_handler = WriteFrames;
  action.sa_flags = SA_RESTART;
  sigaction(Signal(), &action, nullptr);
  std::string stacks;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/proc/self/task", error)) {
    int thread = 0;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &thread)) continue;
    absl::StrAppend(&stacks, "thread ", thread, " ", LineOf(entry.path() / "comm"), "\n",
                    StackOf(thread));
  }
  return stacks;
}

void EndWithReason(absl::string_view program, const std::string& reason) {
  Log(LogLevel::kError, program, "ends-itself", {{"reason", reason}, {"exit_status", 1}});
  WriteTerminationLog(reason);
  _exit(1);
}

void EndWithStacks(absl::string_view program, const std::string& hanging) {
  WriteTerminationLog(absl::StrCat("it hangs and has ended itself: ", hanging));
  Log(LogLevel::kError, program, "ends-itself", {{"hangs", hanging}, {"exit_status", kExitCode}});
  const std::string stacks = StacksOfAllThreads();
  // Line by line, and not without end: what hangs must end, whoever reads.
  const SteadyTime until = SteadyTime::Now() + kReaderPatience;
  uint64_t lost = 0;
  for (const absl::string_view line : absl::StrSplit(stacks, '\n')) {
    if (line.empty()) continue;
    const std::string text = absl::StrCat(line, "\n");
    while (!StderrWriter::Get().Write(text, &lost) && SteadyTime::Now() < until) {
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  _exit(kExitCode);
}

}  // namespace sluice
