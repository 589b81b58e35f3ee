#include "services/gateway/api/body_reader.h"

#include <memory>
#include <utility>

#include "services/gateway/json/json_text.h"

namespace sluice::gateway {
namespace {

// What a loop reads by itself: below 3 ms at the slowest.
constexpr size_t kSmallBytes = 32 << 10;

}  // namespace

void BodyReader::Start(http::Loop& loop, const std::string& tenant, absl::string_view body,
                       Read read, std::function<void(const absl::Status&)> done) {
  StartText(
      loop, tenant, body,
      [read = std::move(read)](absl::string_view text) {
        const absl::StatusOr<nlohmann::json> parsed = ParseJson(text);
        return parsed.ok() ? read(*parsed) : parsed.status();
      },
      std::move(done));
}

void BodyReader::StartText(http::Loop& loop, const std::string& tenant, absl::string_view body,
                           ReadText read, std::function<void(const absl::Status&)> done) {
  if (body.size() <= kSmallBytes) return done(read(body));
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  waiting_[tenant].push_back({&loop, body, std::move(read), std::move(done)});
  if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
  changed_.notify_one();
}

void BodyReader::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    auto next = waiting_.upper_bound(last_tenant_);
    if (next == waiting_.end()) next = waiting_.begin();
    last_tenant_ = next->first;
    auto task = std::make_shared<Task>(std::move(next->second.front()));
    next->second.pop_front();
    if (next->second.empty()) waiting_.erase(next);
    lock.unlock();
    http::Loop& loop = *task->loop;
    const absl::Status status = task->read(task->body);
    // The task itself, and no copy of it: what it holds ends on the loop, as it must.
    loop.Post([task = std::move(task), status] { task->done(status); });
    lock.lock();
  }
}

void BodyReader::Shutdown() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  waiting_.clear();
}

}  // namespace sluice::gateway
