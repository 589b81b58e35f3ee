// A thread that runs messages from others in their order, and a task's work after each batch of
// them. What lives on it needs no locks and asks no clock.
//
// Thread-safe, but for Start() and Stop().
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "services/common/steady_time.h"

namespace sluice {

// A message for a loop: called once, on its thread.
using Message = absl::AnyInvocable<void()>;

// Leaves a message. Thread-safe; may outlive the loop, which runs nothing that comes after Stop().
using Post = std::function<void(Message message)>;

class EventLoop {
 public:
  class Task {
   public:
    virtual ~Task() = default;

    // Called after messages have been run, and at the latest at the time that the call before has
    // returned.
    virtual SteadyTime Advance(SteadyTime now) = 0;
  };

  EventLoop();
  // Stops.
  ~EventLoop();

  Post post() const;

  // Starts the thread, once; `task` is borrowed.
  void Start(Task* task);

  // Lets the thread run the messages that it has, and waits for its end. The task is not called any
  // more, and later messages are dropped.
  void Stop();

 private:
  // What posters share with the loop.
  struct Mailbox {
    std::mutex mutex;
    std::condition_variable changed;
    bool stopping = false;          // guarded by mutex
    std::vector<Message> messages;  // guarded by mutex

    // Takes everything posted, waiting for the first message until `wake`. False: stop.
    bool TakeAll(SteadyTime wake, std::vector<Message>& taken);
  };

  void Run(Task* task);

  const std::shared_ptr<Mailbox> mailbox_;
  std::thread thread_;
};

}  // namespace sluice
