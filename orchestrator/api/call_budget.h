// How many unary calls of one host may be under way at a time. Each holds a stream, its request and
// its place in a queue, so that a client that sends more of them than it reads answers gets a status
// instead. Thread-safe.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "services/listener/connection_guard.h"

namespace sluice {

class CallBudget {
 public:
  // An eighth of the streams that all connections together may have, but as many as any honest client
  // has at a time.
  static int MostCalls(const ListenerLimits& limits) {
    constexpr int kFewest = 256;
    return std::max(limits.streams / 8, kFewest);
  }

  // `most` calls of a host.
  explicit CallBudget(int most) : state_(std::make_shared<State>(most)) {}

  // The place of a call of the peer, as gRPC names it, for as long as it exists; null where the host
  // has as many as it may. Peers on unix sockets and in this process are not counted. May outlive the
  // budget.
  std::shared_ptr<void> Take(absl::string_view peer) {
    // Of any value that is not null.
    if (!absl::StartsWith(peer, "ipv")) return std::make_shared<bool>();
    const std::string host = HostOfConnection(peer);
    {
      absl::MutexLock lock(&state_->mutex);
      int& calls = state_->calls[host];
      if (calls == state_->most) return nullptr;
      ++calls;
    }
    return std::shared_ptr<void>(state_.get(), [state = state_, host](void*) {
      absl::MutexLock lock(&state->mutex);
      const auto found = state->calls.find(host);
      if (--found->second == 0) state->calls.erase(found);
    });
  }

  int most() const { return state_->most; }

 private:
  struct State {
    explicit State(int most) : most(most) {}
    const int most;
    absl::Mutex mutex;
    std::map<std::string, int> calls ABSL_GUARDED_BY(mutex);  // by host, those under way
  };
  const std::shared_ptr<State> state_;
};

}  // namespace sluice
