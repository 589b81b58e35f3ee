#include "clients/cli/health_watch.h"

#include <grpcpp/create_channel.h>

#include <utility>

#include "absl/time/clock.h"
#include "clients/cli/health_check.h"
#include "services/rpc/grpc_runtime.h"

namespace sluice {
namespace {

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
  do {
    pid_t asked = 0;
    {
      absl::MutexLock lock(&mutex_);
      asked = watched.pid;
    }
    const absl::Status answer = CheckHealth(channel, "", patience).status();
    if (!absl::IsDeadlineExceeded(answer)) {
      if (answer.ok()) patience = hang_timeout_;
      continue;
    }
    absl::MutexLock lock(&mutex_);
    if (asked == 0 || asked != watched.pid) continue;
    patience *= 2;
    silent_.push_back({watched.name, asked});
    news_.Set();
  } while (!stop_.WaitFor(hang_timeout_ / 8));
}

}  // namespace sluice
