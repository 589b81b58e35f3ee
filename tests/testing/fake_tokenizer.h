// A tokenizer without a model, for DetokenizeStream: a token's text is "<id>". Stop strings are
// found in the text so far, as in the real one, but nothing is held back. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "services/streams/server_stream.h"
#include "sluice/v1/tokenizer.grpc.pb.h"

namespace sluice::testing {

// The text of `tokens`.
std::string FakeText(const std::vector<int32_t>& tokens);

class FakeTokenizer final : public v1::TokenizerService::CallbackService {
 public:
  // Called with every request before it is handled: true ends its stream with UNAVAILABLE instead.
  using Breaks = std::function<bool(const v1::DetokenizeStreamRequest&)>;

  void SetBreaks(Breaks breaks);

  // Streams for another tokenizer are refused (services/messages/expected_tokenizer.h).
  void SetDigest(std::string digest);

  // Called with every answer before it is sent.
  void SetChange(std::function<void(v1::DetokenizeStreamResponse&)> change);

  // How many streams have begun.
  int num_streams() const;
  // Sequences that were finished or ended, of all streams.
  std::multiset<uint64_t> ended() const;
  // Waits until a sequence of this id has ended, a minute at most.
  bool WaitUntilEnded(uint64_t id) const;

  grpc::ServerBidiReactor<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>*
  DetokenizeStream(grpc::CallbackServerContext* context) override;

 private:
  using Stream = ServerStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;
  struct Session;

  void Handle(Session& session, Stream& stream, const v1::DetokenizeStreamRequest& request);

  mutable absl::Mutex mutex_;
  Breaks breaks_ ABSL_GUARDED_BY(mutex_);
  std::function<void(v1::DetokenizeStreamResponse&)> change_ ABSL_GUARDED_BY(mutex_);
  std::string digest_ ABSL_GUARDED_BY(mutex_);
  int num_streams_ ABSL_GUARDED_BY(mutex_) = 0;
  std::multiset<uint64_t> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace sluice::testing
