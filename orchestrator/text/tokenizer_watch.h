// Knows whether the tokenizer answers, and what it is: asks until it does, and once a second from
// then on. Thread-safe; asks from a thread of its own.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "services/common/steady_time.h"
#include "services/process/stop_signal.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice {

class TokenizerWatch {
 public:
  using Info = v1::GetTokenizerInfoResponse;
  using Callback = std::function<void(absl::StatusOr<Info>)>;

  struct Options {
    std::string address;  // for messages
    // Called from the watching thread, each time that the tokenizer begins or ceases to answer.
    std::function<void(bool answers)> on_changed;
    // What is wrong with one that answers so, if anything is: it does not count as answering then.
    // Called from there with every answer.
    std::function<absl::Status(const Info&)> check;
    // Called from there with its first answer, before on_changed.
    std::function<void(const Info&)> on_info;
    absl::Duration interval = absl::Seconds(1);  // between questions while it answers
    // How long Get() waits at most.
    absl::Duration patience = absl::Seconds(10);
  };

  TokenizerWatch(std::shared_ptr<grpc::Channel> channel, Options options);
  TokenizerWatch(const TokenizerWatch&) = delete;
  TokenizerWatch& operator=(const TokenizerWatch&) = delete;
  ~TokenizerWatch();

  // Stops asking; who waits in Get(), or calls it from now on, is told UNAVAILABLE.
  void Stop();

  // OK while the tokenizer answers; else UNAVAILABLE with the reason alone.
  absl::Status status() const;

  // What the tokenizer said first. Calls back at once where that is known, else when it has
  // answered; UNAVAILABLE with address and reason where it has not by `deadline`, or for as long as
  // `patience`.
  void Get(SteadyTime deadline, Callback callback);

 private:
  struct Waiting {
    SteadyTime deadline;
    Callback callback;
  };

  void Loop();
  absl::StatusOr<Info> Ask();
  // Waits so long for the connection and the answer; without `patience`, for no connection.
  absl::StatusOr<Info> Call(std::optional<absl::Duration> patience);
  absl::Status Refusal() const;
  void Publish(const absl::StatusOr<Info>& answer);

  const Options options_;
  const std::unique_ptr<v1::TokenizerService::Stub> stub_;

  std::string refusal_;  // of the watching thread: why the last answer could not be used
  StopSignal stop_;
  mutable absl::Mutex mutex_;
  grpc::ClientContext* asking_ ABSL_GUARDED_BY(mutex_) = nullptr;  // the call in progress
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  std::optional<Info> info_ ABSL_GUARDED_BY(mutex_);
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace sluice
