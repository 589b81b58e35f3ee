// The time that stages are given to open: handed down with Open, and more after an attempt that
// took longer. In virtual time, over a network that the test is the other end of.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "orchestrator/pipeline/connected_replica.h"
#include "services/messages/wiring_message.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

// Every process fits; what happens to an Open is up to the test.
class ScriptedNetwork final : public StageNetwork {
 public:
  // Open of the process at `address` has been sent; returns whether it is answered.
  std::function<bool(const std::string& address, uint32_t open_timeout_ms)> on_open;

  // Delivers what has been sent, and what answers it.
  void Deliver() {
    while (!pending_.empty()) {
      const auto deliver = std::exchange(pending_, {});
      for (const auto& one : deliver) one();
    }
  }

  void Ask(Role role, const std::string&, absl::Duration, InfoCallback callback) override {
    v1::GetStageInfoResponse info;
    info.set_model_fingerprint("model");
    if (role == Role::kEmbedding) info.mutable_embedding();
    if (role == Role::kSampler) info.mutable_sampler();
    if (role == Role::kShard) {
      info.mutable_shard()->set_num_stages(1);
      info.mutable_shard()->set_num_ranks(1);
      info.mutable_shard()->set_block_size(4);
      info.mutable_shard()->set_num_kv_blocks(8);
      info.mutable_shard()->set_max_step_tokens(1);
    }
    pending_.push_back([info, callback = std::move(callback)] { callback(info); });
  }
  void Refuse(const std::string&, const std::string&) override {}

  absl::StatusOr<std::unique_ptr<Stream>> Run(Role, const std::string& address,
                                              Stream::Handler handler) override {
    return std::make_unique<ScriptedStream>(*this, address, std::move(handler));
  }

 private:
  class ScriptedStream final : public Stream {
   public:
    ScriptedStream(ScriptedNetwork& network, std::string address, Handler handler)
        : network_(network), address_(std::move(address)), handler_(std::move(handler)) {}
    void Send(v1::StageRunRequest&& request) override {
      network_.pending_.push_back([this, open = request.open()] {
        if (!network_.on_open(address_, open.open_timeout_ms())) return;
        v1::StageRunResponse response;
        SetWiring(*WiringOf(open), *response.mutable_opened());
        handler_.on_response(std::move(response));
      });
    }

   private:
    ScriptedNetwork& network_;
    const std::string address_;
    const Handler handler_;
  };

  std::vector<std::function<void()>> pending_;
};

class OpenBudgetTest : public ::testing::Test {
 protected:
  // Lets everything happen that happens at `now_`.
  void Settle() {
    for (int i = 0; i < 20; ++i) {
      replica_.Advance(now_);
      network_.Deliver();
    }
  }

  ScriptedNetwork network_;
  ConnectedReplica replica_{
      {.topology = {.embedding = "embedding", .shards = {{"shard"}}, .sampler = "sampler"},
       .model_fingerprint = "model"},
      &network_};
  SteadyTime now_ = SteadyTime::FromStart(absl::Seconds(100));
};

TEST_F(OpenBudgetTest, HandsDownWhatIsLeft) {
  std::vector<std::pair<std::string, uint32_t>> opened;
  network_.on_open = [&](const std::string& address, uint32_t timeout_ms) {
    opened.emplace_back(address, timeout_ms);
    now_ = now_ + absl::Seconds(3);  // that it takes
    return true;
  };
  Settle();
  EXPECT_THAT(opened, ElementsAre(std::pair("sampler", 20000u), std::pair("shard", 17000u),
                                  std::pair("embedding", 14000u)));
  bool ready = false;
  for (const ReplicaEvent& event : replica_.TakeEvents()) {
    ready = ready || std::holds_alternative<ReplicaReady>(event);
  }
  EXPECT_TRUE(ready);
}

TEST_F(OpenBudgetTest, GrowsWhileStagesDoNotAnswerInTime) {
  std::vector<uint32_t> timeouts;
  bool answers = false;
  network_.on_open = [&](const std::string& address, uint32_t timeout_ms) {
    if (address == "sampler") return true;
    if (address == "shard") timeouts.push_back(timeout_ms);
    return answers;
  };
  for (int attempt = 0; attempt < 4; ++attempt) {
    Settle();
    ASSERT_EQ(timeouts.size(), static_cast<size_t>(attempt) + 1);
    // A stage that gives up by then says why; the orchestrator waits for that.
    now_ = now_ + absl::Milliseconds(timeouts.back());
    Settle();
    ASSERT_EQ(timeouts.size(), static_cast<size_t>(attempt) + 1);
    now_ = now_ + absl::Seconds(1);
    Settle();
    now_ = now_ + absl::Seconds(1);
  }
  EXPECT_THAT(timeouts, ElementsAre(20000, 40000, 80000, 80000));
  answers = true;
  Settle();
  EXPECT_EQ(timeouts.size(), 5u);
  bool ready = false;
  for (const ReplicaEvent& event : replica_.TakeEvents()) {
    ready = ready || std::holds_alternative<ReplicaReady>(event);
  }
  EXPECT_TRUE(ready);
  // Once it was wired, the next attempt has as much as the first.
  replica_.MarkFailed(absl::UnavailableError("lost"));
  Settle();
  EXPECT_EQ(timeouts.back(), 20000u);
}

}  // namespace
}  // namespace sluice
