#include "services/common/event_loop.h"

#include <utility>

namespace sluice {

EventLoop::EventLoop() : mailbox_(std::make_shared<Mailbox>()) {}

EventLoop::~EventLoop() { Stop(); }

Post EventLoop::post() const {
  return [mailbox = mailbox_](Message message) {
    const std::lock_guard<std::mutex> lock(mailbox->mutex);
    if (mailbox->stopping) return;
    mailbox->messages.push_back(std::move(message));
    if (mailbox->messages.size() == 1) mailbox->changed.notify_one();
  };
}

void EventLoop::Start(Task* task) {
  thread_ = std::thread([this, task] { Run(task); });
}

void EventLoop::Stop() {
  {
    const std::lock_guard<std::mutex> lock(mailbox_->mutex);
    mailbox_->stopping = true;
  }
  mailbox_->changed.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool EventLoop::Mailbox::TakeAll(SteadyTime wake, std::vector<Message>& taken) {
  std::unique_lock<std::mutex> lock(mutex);
  const auto decided = [this] { return stopping || !messages.empty(); };
  if (wake == SteadyTime::InfiniteFuture()) {
    changed.wait(lock, decided);
  } else {
    changed.wait_until(lock, wake.ToChrono(), decided);
  }
  taken.swap(messages);
  return !stopping;
}

void EventLoop::Run(Task* task) {
  SteadyTime wake = task->Advance(SteadyTime::Now());
  std::vector<Message> messages;
  bool stopping = false;
  while (!stopping) {
    stopping = !mailbox_->TakeAll(wake, messages);
    for (Message& message : messages) message();
    messages.clear();
    if (!stopping) wake = task->Advance(SteadyTime::Now());
  }
}

}  // namespace sluice
