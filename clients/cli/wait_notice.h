// Says what calls wait for, once one has waited for a while without an answer. Time is the steady
// clock's. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "absl/time/time.h"
#include "services/common/steady_time.h"

namespace sluice {

class WaitNotice {
 public:
  // `cause` asks what is waited for, nothing where nothing is wrong; `say` tells the user. Both are
  // called from a thread of this object's, after `patience`, and `say` once for each cause.
  WaitNotice(std::function<std::optional<std::string>()> cause,
             std::function<void(const std::string&)> say, absl::Duration patience);
  WaitNotice(const WaitNotice&) = delete;
  WaitNotice& operator=(const WaitNotice&) = delete;
  ~WaitNotice();

  // A call that has no answer yet, from construction to Answered() or destruction.
  class Call {
   public:
    explicit Call(WaitNotice* notice);  // null: not reported
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    ~Call() { Answered(); }
    void Answered();

   private:
    WaitNotice* notice_;
    std::multiset<SteadyTime>::iterator begun_;
  };

 private:
  void Loop();

  const std::function<std::optional<std::string>()> cause_;
  const std::function<void(const std::string&)> say_;
  const absl::Duration patience_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;            // guarded by mutex_
  std::multiset<SteadyTime> begun_;  // of the calls without an answer; guarded by mutex_
  std::thread thread_;
};

}  // namespace sluice
