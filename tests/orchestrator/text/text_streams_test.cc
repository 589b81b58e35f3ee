// Text of growing sequences over a tokenizer that comes and goes.
#include "orchestrator/text/text_streams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "orchestrator/text/grpc_detokenize.h"
#include "services/common/event_loop.h"
#include "services/rpc/server.h"
#include "services/rpc/transport.h"
#include "tests/testing/fake_tokenizer.h"

namespace sluice {
namespace {

using ::sluice::testing::FakeText;
using ::sluice::testing::FakeTokenizer;
using ::testing::HasSubstr;

// What one sequence hears.
class Recording {
 public:
  std::function<void(absl::StatusOr<TextPiece>)> OnPiece() {
    return [this](absl::StatusOr<TextPiece> piece) {
      absl::MutexLock lock(&mutex_);
      over_ = !piece.ok() || piece->finished || piece->stop_string_index.has_value();
      ++num_pieces_;
      if (!piece.ok()) {
        failure_ = piece.status();
        return;
      }
      texts_.push_back(piece->text);
      last_ = *std::move(piece);
    };
  }

  bool WaitUntilOver() const {
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(absl::Condition(&over_), absl::Minutes(1));
  }
  // Waits for `count` pieces in all.
  bool WaitForPieces(int count) const {
    const std::pair<const Recording*, int> asked = {this, count};
    absl::MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(
        absl::Condition(
            +[](const std::pair<const Recording*, int>* asked) ABSL_NO_THREAD_SAFETY_ANALYSIS {
              return asked->first->num_pieces_ >= asked->second;
            },
            &asked),
        absl::Minutes(1));
  }
  std::vector<std::string> texts() const {
    absl::MutexLock lock(&mutex_);
    return texts_;
  }
  std::string text() const {
    const std::vector<std::string> texts = this->texts();
    return std::accumulate(texts.begin(), texts.end(), std::string());
  }
  TextPiece last() const {
    absl::MutexLock lock(&mutex_);
    return last_;
  }
  absl::Status failure() const {
    absl::MutexLock lock(&mutex_);
    return failure_;
  }
  int num_pieces() const {
    absl::MutexLock lock(&mutex_);
    return num_pieces_;
  }

 private:
  mutable absl::Mutex mutex_;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
  int num_pieces_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::string> texts_ ABSL_GUARDED_BY(mutex_);
  TextPiece last_ ABSL_GUARDED_BY(mutex_);
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

constexpr char kDigest[] = "0123456789abcdef";

// TextStreams on a loop of their own, for tests that call and wait.
class LoopedStreams final : private EventLoop::Task {
 public:
  using OnPiece = std::function<void(absl::StatusOr<TextPiece>)>;

  explicit LoopedStreams(std::shared_ptr<grpc::Channel> channel)
      : streams_(DetokenizeOver(std::move(channel), loop_.post(), kDigest)) {
    loop_.Start(this);
  }
  ~LoopedStreams() override { loop_.Stop(); }

  void Open(uint64_t id, const TextOptions& options, OnPiece on_piece) {
    Do([&] {
      on_piece_[id] = std::move(on_piece);
      streams_.Open(id, options);
    });
  }
  void Append(uint64_t id, const std::vector<int32_t>& tokens) {
    Do([&] { streams_.Append(id, tokens); });
  }
  void Finish(uint64_t id) {
    Do([&] { streams_.Finish(id); });
  }
  void Drop(uint64_t id) {
    Do([&] {
      streams_.Drop(id);
      on_piece_.erase(id);
    });
  }

 private:
  void Do(const std::function<void()>& work) {
    absl::Notification done;
    loop_.post()([&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }
  SteadyTime Advance(SteadyTime now) override {
    streams_.Advance(now);
    for (TextStreams::Answer& answer : streams_.TakeAnswers()) {
      on_piece_.at(answer.sequence)(std::move(answer.piece));
    }
    return streams_.NextWake();
  }

  EventLoop loop_;
  TextStreams streams_;
  std::map<uint64_t, OnPiece> on_piece_;
};

class TextStreamsTest : public ::testing::Test {
 protected:
  TextStreamsTest()
      : server_(*Server::Start({.address = "inproc:tokenizer", .services = {&tokenizer_}})) {
    tokenizer_.SetDigest(kDigest);
    dialer_.RegisterInProcess("tokenizer", server_->grpc_server());
    streams_ = std::make_unique<LoopedStreams>(*dialer_.Dial("inproc:tokenizer", Role::kTokenizer));
  }
  ~TextStreamsTest() override { streams_.reset(); }

  FakeTokenizer tokenizer_;
  std::unique_ptr<Server> server_;
  Dialer dialer_;
  std::unique_ptr<LoopedStreams> streams_;
};

TEST_F(TextStreamsTest, AnswersEveryAppendAndFinishInOrder) {
  Recording first, second;
  streams_->Open(1, {}, first.OnPiece());
  streams_->Open(2, {}, second.OnPiece());
  streams_->Append(1, {10});
  streams_->Append(2, {20, 21});
  streams_->Append(1, {11, 12});
  streams_->Finish(1);
  streams_->Finish(2);
  ASSERT_TRUE(first.WaitUntilOver());
  ASSERT_TRUE(second.WaitUntilOver());
  EXPECT_EQ(first.texts(), (std::vector<std::string>{"<10>", "<11><12>", ""}));
  EXPECT_EQ(second.texts(), (std::vector<std::string>{"<20><21>", ""}));
  EXPECT_TRUE(first.last().finished);
  EXPECT_EQ(first.last().num_tokens, 3);
  EXPECT_EQ(tokenizer_.num_streams(), 1);
}

TEST_F(TextStreamsTest, EndsAtAStopString) {
  Recording recording;
  streams_->Open(1, {.stop_strings = {"never", "><12"}}, recording.OnPiece());
  streams_->Append(1, {10, 11, 12, 13});
  streams_->Append(1, {14});  // of a sequence that is over: harmless
  ASSERT_TRUE(recording.WaitUntilOver());
  EXPECT_EQ(recording.text(), "<10><11");
  EXPECT_EQ(recording.last().stop_string_index, 1);
  EXPECT_EQ(recording.last().num_tokens, 3);
  Recording other;  // the stream goes on
  streams_->Open(2, {}, other.OnPiece());
  streams_->Append(2, {15});
  streams_->Finish(2);
  ASSERT_TRUE(other.WaitUntilOver());
  EXPECT_EQ(recording.num_pieces(), 1);
}

TEST_F(TextStreamsTest, DoesNotDeliverTheTextOfResumedTokens) {
  Recording recording;
  streams_->Open(1, {.resumed_tokens = {10, 11}}, recording.OnPiece());
  streams_->Append(1, {12});
  streams_->Finish(1);
  ASSERT_TRUE(recording.WaitUntilOver());
  EXPECT_EQ(recording.texts(), (std::vector<std::string>{"<12>", ""}));
  EXPECT_EQ(recording.last().num_tokens, 1);
}

TEST_F(TextStreamsTest, EndsAtOnceWhereResumedTokensHaveAStopStringAlready) {
  Recording recording;
  streams_->Open(1, {.stop_strings = {"<11>"}, .resumed_tokens = {10, 11}}, recording.OnPiece());
  streams_->Append(1, {12});
  ASSERT_TRUE(recording.WaitUntilOver());
  EXPECT_EQ(recording.failure(), absl::OkStatus());
  EXPECT_EQ(recording.last().stop_string_index, 0);
  EXPECT_EQ(recording.last().num_tokens, 0);
  EXPECT_EQ(recording.text(), "");
}

// The stream breaks before requests drawn at random, several times in a row at most.
TEST_F(TextStreamsTest, LosesAndRepeatsNothingWhenTheStreamBreaks) {
  for (const uint32_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    auto random = std::make_shared<std::mt19937>(seed);
    auto num_breaks_left = std::make_shared<int>(4);
    tokenizer_.SetBreaks([random, num_breaks_left](const v1::DetokenizeStreamRequest&) {
      return *num_breaks_left > 0 && (*random)() % 6 == 0 && (*num_breaks_left)-- > 0;
    });
    constexpr int kSequences = 5;
    std::vector<Recording> recordings(kSequences);
    std::vector<std::vector<int32_t>> tokens(kSequences);
    std::mt19937 script(seed);
    for (int i = 0; i < kSequences; ++i) {
      TextOptions options;
      if (i % 2 == 1) options.resumed_tokens = {1000, 1001};
      streams_->Open(i, options, recordings[i].OnPiece());
    }
    for (int step = 0; step < 60; ++step) {
      const int i = static_cast<int>(script() % kSequences);
      const int32_t token = static_cast<int32_t>(script() % 100);
      tokens[i].push_back(token);
      streams_->Append(i, {token});
      // Now and then in step with the answers, else ahead of them.
      if (step % 7 == 0) {
        ASSERT_TRUE(recordings[i].WaitForPieces(1));
      }
    }
    for (int i = 0; i < kSequences; ++i) streams_->Finish(i);
    for (int i = 0; i < kSequences; ++i) {
      ASSERT_TRUE(recordings[i].WaitUntilOver()) << "sequence " << i;
      EXPECT_EQ(recordings[i].failure(), absl::OkStatus());
      EXPECT_EQ(recordings[i].text(), FakeText(tokens[i])) << "sequence " << i;
      EXPECT_EQ(recordings[i].last().num_tokens, static_cast<int64_t>(tokens[i].size()));
    }
    EXPECT_LT(*num_breaks_left, 4);
  }
}

TEST_F(TextStreamsTest, GivesUpASequenceThatEndsTheTokenizerEveryTimeAndNoOther) {
  tokenizer_.SetBreaks([](const v1::DetokenizeStreamRequest& request) {
    return request.append().token_ids_size() > 0 && request.append().token_ids(0) == 13;
  });
  Recording before, poison, after;
  streams_->Open(1, {}, before.OnPiece());
  streams_->Open(2, {}, poison.OnPiece());
  streams_->Open(3, {}, after.OnPiece());
  streams_->Append(1, {10});
  streams_->Append(3, {30});
  streams_->Append(2, {13});
  streams_->Append(1, {11});
  streams_->Append(3, {31});
  ASSERT_TRUE(poison.WaitUntilOver());
  EXPECT_EQ(poison.failure().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(poison.failure().message()), HasSubstr("again and again"));
  streams_->Finish(1);
  streams_->Finish(3);
  ASSERT_TRUE(before.WaitUntilOver());
  ASSERT_TRUE(after.WaitUntilOver());
  EXPECT_EQ(before.failure(), absl::OkStatus());
  EXPECT_EQ(after.failure(), absl::OkStatus());
  EXPECT_EQ(before.text(), "<10><11>");
  EXPECT_EQ(after.text(), "<30><31>");
}

TEST_F(TextStreamsTest, SaysNothingOfASequenceThatWasDropped) {
  Recording dropped, kept;
  streams_->Open(1, {}, dropped.OnPiece());
  streams_->Open(2, {}, kept.OnPiece());
  streams_->Append(1, {10});
  streams_->Drop(1);
  const int num_pieces = dropped.num_pieces();
  EXPECT_TRUE(tokenizer_.WaitUntilEnded(1));  // told to forget it
  streams_->Append(1, {11});
  streams_->Append(2, {20});
  streams_->Finish(2);
  ASSERT_TRUE(kept.WaitUntilOver());
  EXPECT_EQ(dropped.num_pieces(), num_pieces);
}

TEST_F(TextStreamsTest, NeverCallsBackOnceDropHasReturned) {
  for (int round = 0; round < 200; ++round) {
    auto dropped = std::make_shared<std::atomic<bool>>(false);
    auto late = std::make_shared<std::atomic<bool>>(false);
    streams_->Open(round, {}, [dropped, late](const absl::StatusOr<TextPiece>&) {
      for (int i = 0; i < 100; ++i) {
        if (*dropped) *late = true;
        std::this_thread::yield();
      }
    });
    streams_->Append(round, {1});
    while (tokenizer_.num_streams() == 0) std::this_thread::yield();
    streams_->Drop(round);
    *dropped = true;
    ASSERT_TRUE(tokenizer_.WaitUntilEnded(round));
    // The answer to this one comes after whatever was said of the one before.
    Recording next;
    streams_->Open(1000, {}, next.OnPiece());
    streams_->Finish(1000);
    ASSERT_TRUE(next.WaitUntilOver());
    ASSERT_FALSE(*late) << "round " << round;
  }
}

TEST_F(TextStreamsTest, EndsASequenceOverAnAnswerThatIsNoneToWhatWasSent) {
  using Response = v1::DetokenizeStreamResponse;
  const std::pair<std::function<void(Response&)>, std::string> answers[] = {
      {[](Response& response) { response.set_num_tokens(~uint64_t{0}); },
       "18446744073709551615 tokens of 1"},
      {[](Response& response) { response.set_stop_string_index(1); }, "stop string 1 of 1"},
      {[](Response& response) { response.set_stop_string_index(-1); }, "stop string -1 of 1"}};
  uint64_t id = 0;
  for (const auto& [change, message] : answers) {
    tokenizer_.SetChange(change);
    Recording recording;
    streams_->Open(++id, {.stop_strings = {"x"}}, recording.OnPiece());
    streams_->Append(id, {10});
    ASSERT_TRUE(recording.WaitUntilOver());
    EXPECT_EQ(recording.failure().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(recording.failure().message()), HasSubstr(message));
  }
}

TEST_F(TextStreamsTest, WaitsWhileTheTokenizerIsThatOfAnotherModel) {
  tokenizer_.SetDigest("other");
  Recording recording;
  streams_->Open(1, {}, recording.OnPiece());
  streams_->Append(1, {10});
  // More often than a text may lose a tokenizer.
  while (tokenizer_.num_streams() < 8) std::this_thread::yield();
  EXPECT_EQ(recording.num_pieces(), 0);
  tokenizer_.SetDigest(kDigest);
  streams_->Finish(1);
  ASSERT_TRUE(recording.WaitUntilOver());
  EXPECT_EQ(recording.text(), "<10>");
}

TEST_F(TextStreamsTest, EndsQuietlyWithSequencesOpen) {
  Recording recording;
  streams_->Open(1, {}, recording.OnPiece());
  streams_->Append(1, {10});
  ASSERT_TRUE(recording.WaitForPieces(1));
  streams_.reset();
  EXPECT_EQ(recording.num_pieces(), 1);
}

}  // namespace
}  // namespace sluice
