#include "clients/cli/wait_notice.h"

#include <utility>

#include "absl/time/clock.h"

namespace sluice {

WaitNotice::WaitNotice(std::function<std::optional<std::string>()> cause,
                       std::function<void(const std::string&)> say, absl::Duration patience)
    : cause_(std::move(cause)), say_(std::move(say)), patience_(patience) {
  thread_ = std::thread([this] { Loop(); });
}

WaitNotice::~WaitNotice() {
  {
    const absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

WaitNotice::Call::Call(WaitNotice* notice) : notice_(notice) {
  if (notice_ == nullptr) return;
  const absl::MutexLock lock(&notice_->mutex_);
  begun_ = notice_->begun_.insert(absl::Now());
}

void WaitNotice::Call::Answered() {
  if (notice_ == nullptr) return;
  const absl::MutexLock lock(&notice_->mutex_);
  notice_->begun_.erase(begun_);
  notice_ = nullptr;
}

void WaitNotice::Loop() {
  std::string said;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto overdue = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return stopping_ || !begun_.empty();
      };
      mutex_.Await(absl::Condition(&overdue));
      const absl::Time due = begun_.empty() ? absl::Now() : *begun_.begin() + patience_;
      if (mutex_.AwaitWithDeadline(absl::Condition(&stopping_), due)) return;
      // The call that was waited for may have been answered meanwhile.
      if (begun_.empty() || *begun_.begin() + patience_ > absl::Now()) continue;
    }
    const std::optional<std::string> cause = cause_();
    if (cause.has_value() && *cause != said) say_(*cause);
    said = cause.value_or("");
    absl::MutexLock lock(&mutex_);
    if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), patience_)) return;
  }
}

}  // namespace sluice
