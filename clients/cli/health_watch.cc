#include "clients/cli/health_watch.h"

#include <grpcpp/create_channel.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "clients/cli/health_check.h"
#include "services/rpc/grpc_runtime.h"

namespace sluice {
namespace {

// A process that has taken a fiftieth of a processor while it was waited for computes.
constexpr int kBusyPart = 50;
// So many times in a row it is waited for again.
constexpr int kMostBusyTimes = 8;

// The processor time that a process has taken; zero where it is not known.
absl::Duration ProcessorTimeOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // Behind the name, in which anything may be, fields 3 and on: user and system time are 14 and 15.
  const size_t name_end = text.rfind(')');
  if (pid <= 0 || name_end == std::string::npos) return absl::ZeroDuration();
  const std::vector<std::string> fields =
      absl::StrSplit(text.substr(name_end + 1), ' ', absl::SkipEmpty());
  int64_t user = 0, system = 0;
  if (fields.size() < 13 || !absl::SimpleAtoi(fields[11], &user) ||
      !absl::SimpleAtoi(fields[12], &system)) {
    return absl::ZeroDuration();
  }
  return absl::Seconds(1) * (user + system) / sysconf(_SC_CLK_TCK);
}

std::shared_ptr<grpc::Channel> ChannelToWatched(const std::string& address) {
  grpc::ChannelArguments arguments;
  // A process that was started again is asked soon.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

HealthWatch::HealthWatch(const std::map<std::string, std::string>& addresses,
                         absl::Duration hang_timeout)
    : hang_timeout_(hang_timeout) {
  PrepareGrpc();
  for (const auto& [name, address] : addresses) {
    watched_.push_back(std::make_unique<Watched>());
    watched_.back()->name = name;
    watched_.back()->address = address;
  }
  for (const auto& watched : watched_) {
    watched->thread = std::thread([this, &watched = *watched] { Ask(watched); });
  }
}

HealthWatch::~HealthWatch() {
  stop_.Set();
  for (const auto& watched : watched_) watched->thread.join();
}

void HealthWatch::Started(const std::string& name, pid_t pid) {
  absl::MutexLock lock(&mutex_);
  for (const auto& watched : watched_) {
    if (watched->name == name) watched->pid = pid;
  }
}

std::vector<SilentProcess> HealthWatch::TakeSilent() {
  absl::MutexLock lock(&mutex_);
  news_.Clear();
  return std::exchange(silent_, {});
}

void HealthWatch::Ask(Watched& watched) {
  const std::shared_ptr<grpc::Channel> channel = ChannelToWatched(watched.address);
  absl::Duration patience = hang_timeout_;
  int num_busy = 0;
  do {
    pid_t asked = 0;
    {
      absl::MutexLock lock(&mutex_);
      asked = watched.pid;
    }
    const absl::Duration taken = ProcessorTimeOf(asked);
    const absl::Status answer = CheckHealth(channel, "", patience).status();
    if (!absl::IsDeadlineExceeded(answer)) {
      num_busy = 0;
      if (answer.ok()) patience = hang_timeout_;
      continue;
    }
    // One that is stopped, or stuck, takes no time. One that does has more to do than it can, or sees
    // by itself that it does not move.
    const bool is_busy = ProcessorTimeOf(asked) - taken >= patience / kBusyPart;
    if (is_busy && ++num_busy <= kMostBusyTimes) continue;
    num_busy = 0;
    absl::MutexLock lock(&mutex_);
    if (asked == 0 || asked != watched.pid) continue;
    patience *= 2;
    silent_.push_back({watched.name, asked});
    news_.Set();
  } while (!stop_.WaitFor(hang_timeout_ / 8));
}

}  // namespace sluice
