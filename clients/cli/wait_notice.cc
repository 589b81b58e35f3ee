#include "clients/cli/wait_notice.h"

#include <utility>

namespace sluice {

WaitNotice::WaitNotice(std::function<std::optional<std::string>()> cause,
                       std::function<void(const std::string&)> say, absl::Duration patience)
    : cause_(std::move(cause)), say_(std::move(say)), patience_(patience) {
  thread_ = std::thread([this] { Loop(); });
}

WaitNotice::~WaitNotice() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

WaitNotice::Call::Call(WaitNotice* notice) : notice_(notice) {
  if (notice_ == nullptr) return;
  const std::lock_guard lock(notice_->mutex_);
  begun_ = notice_->begun_.insert(SteadyTime::Now());
  notice_->changed_.notify_all();
}

void WaitNotice::Call::Answered() {
  if (notice_ == nullptr) return;
  const std::lock_guard lock(notice_->mutex_);
  notice_->begun_.erase(begun_);
  notice_ = nullptr;
}

void WaitNotice::Loop() {
  std::string said;
  const auto stopping = [this] { return stopping_; };
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !begun_.empty(); });
      const SteadyTime due = begun_.empty() ? SteadyTime::Now() : *begun_.begin() + patience_;
      if (changed_.wait_until(lock, due.ToChrono(), stopping)) return;
      // The call that was waited for may have been answered meanwhile.
      if (begun_.empty() || *begun_.begin() + patience_ > SteadyTime::Now()) continue;
    }
    const std::optional<std::string> cause = cause_();
    if (cause.has_value() && *cause != said) say_(*cause);
    said = cause.value_or("");
    std::unique_lock lock(mutex_);
    if (changed_.wait_until(lock, (SteadyTime::Now() + patience_).ToChrono(), stopping)) return;
  }
}

}  // namespace sluice
