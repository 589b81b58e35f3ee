#include "services/streams/sent_bytes.h"

#include <deque>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace sluice {
namespace {

struct Counter {
  explicit Counter(std::string message) : message(std::move(message)) {}

  const std::string message;
  std::atomic<uint64_t> bytes = 0;
};

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);

// Never destroyed: streams may end after static objects do.
std::deque<Counter>& Counters() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
  static auto* const counters = new std::deque<Counter>();
  return *counters;
}

}  // namespace

std::vector<SentBytes> AllSentBytes() {
  const absl::MutexLock lock(&mutex);
  std::vector<SentBytes> all;
  for (const Counter& counter : Counters()) all.push_back({counter.message, counter.bytes});
  return all;
}

std::atomic<uint64_t>& SentBytesCounter(std::string message) {
  const absl::MutexLock lock(&mutex);
  for (Counter& counter : Counters()) {
    if (counter.message == message) return counter.bytes;
  }
  return Counters().emplace_back(std::move(message)).bytes;
}

}  // namespace sluice
