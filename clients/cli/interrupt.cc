#include "clients/cli/interrupt.h"

#include <utility>

namespace sluice {

Interrupt::Handler::Handler(Interrupt& interrupt, std::function<void()> end)
    : interrupt_(interrupt) {
  const absl::MutexLock lock(&interrupt_.mutex_);
  position_ = interrupt_.handlers_.insert(interrupt_.handlers_.end(), std::move(end));
  if (interrupt_.exit_code_ != 0) (*position_)();
}

Interrupt::Handler::~Handler() {
  const absl::MutexLock lock(&interrupt_.mutex_);
  interrupt_.handlers_.erase(position_);
}

bool Interrupt::Request(int exit_code) {
  const absl::MutexLock lock(&mutex_);
  if (handlers_.empty() || exit_code_ != 0) return false;
  exit_code_ = exit_code;
  for (const std::function<void()>& end : handlers_) end();
  return true;
}

int Interrupt::exit_code() const {
  const absl::MutexLock lock(&mutex_);
  return exit_code_;
}

void Interrupt::Clear() {
  const absl::MutexLock lock(&mutex_);
  exit_code_ = 0;
}

}  // namespace sluice
