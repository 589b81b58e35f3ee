// Spans on their way to a collector that is there, is not, is slow, or refuses.
#include "services/telemetry/span_exporter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "services/common/status.h"
#include "services/common/steady_time.h"
#include "services/messages/retry_info.h"
#include "tests/services/telemetry/fake_collector.h"

namespace sluice {
namespace {

using ::sluice::testing::FakeCollector;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr absl::Duration kLong = absl::Minutes(1);

Span Named(const std::string& name) {
  Span span;
  span.context = TraceContext::NewTrace();
  span.name = name;
  return span;
}

class SpanExporterTest : public ::testing::Test {
 protected:
  SpanExporterTest() {
    options_.batch_delay = absl::Hours(1);
    options_.first_pause = absl::Milliseconds(1);
    options_.longest_pause = absl::Milliseconds(2);
  }

  SpanExporter& exporter() {
    if (exporter_ == nullptr) {
      exporter_ = std::make_unique<SpanExporter>(collector_.Channel(), options_);
    }
    return *exporter_;
  }
  void Export(const std::vector<std::string>& names) {
    std::vector<Span> spans;
    for (const std::string& name : names) spans.push_back(Named(name));
    exporter().Export(std::move(spans));
  }

  FakeCollector collector_;
  SpanExporterOptions options_;
  std::unique_ptr<SpanExporter> exporter_;
};

TEST_F(SpanExporterTest, SendsSpansTogether) {
  options_.resource = {{"service.name", "tested"}};
  options_.max_batch = 3;
  Export({"a", "b"});
  Export({"c"});
  ASSERT_TRUE(collector_.WaitForCalls(1));
  EXPECT_THAT(collector_.names(), ElementsAre(ElementsAre("a", "b", "c")));
  const auto request = collector_.requests().front();
  const auto& resource = request.resource_spans(0).resource().attributes(0);
  EXPECT_EQ(resource.key(), "service.name");
  EXPECT_EQ(resource.value().string_value(), "tested");
  EXPECT_EQ(request.resource_spans(0).scope_spans(0).scope().name(), "sluice");
}

TEST_F(SpanExporterTest, SendsWhatIsThereAfterAMoment) {
  options_.batch_delay = absl::Milliseconds(1);
  Export({"a"});
  EXPECT_TRUE(collector_.WaitForCalls(1));
}

TEST_F(SpanExporterTest, SendsNoMoreAtATimeThanABatch) {
  options_.max_batch = 2;
  Export({"a", "b", "c", "d", "e"});
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_THAT(collector_.names(),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c", "d"), ElementsAre("e")));
  EXPECT_EQ(exporter().counts().exported, 5u);
}

TEST_F(SpanExporterTest, SendsWhatIsLeftAtItsEnd) {
  options_.flush_timeout = kLong;
  Export({"a"});
  const SteadyTime begin = SteadyTime::Now();
  exporter_.reset();
  EXPECT_THAT(collector_.names(), ElementsAre(ElementsAre("a")));
  EXPECT_LT(SteadyTime::Now() - begin, kLong) << "and waits no longer";
}

TEST_F(SpanExporterTest, DropsAndCountsWhatDoesNotFitWhileTheCollectorIsSlow) {
  collector_.Hold();
  options_.max_batch = 1;
  options_.max_queued = 4;
  Export({"under way"});
  ASSERT_TRUE(collector_.WaitForCalls(1));
  Export({"b", "c", "d", "e", "f", "g"});
  EXPECT_EQ(exporter().counts().dropped_full, 2u);
  EXPECT_FALSE(exporter().Flush(absl::ZeroDuration()));
  collector_.Release();
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_EQ(exporter().counts().exported, 5u);
  EXPECT_EQ(exporter().counts().dropped_full, 2u);
}

TEST_F(SpanExporterTest, TriesAgainWhatMayBeTriedAgain) {
  collector_.Set([](int call, auto&) {
    if (call == 0) return grpc::Status(grpc::StatusCode::UNAVAILABLE, "not yet");
    if (call == 1) {
      return ToGrpc(WithRetryDelay(absl::ResourceExhaustedError("busy"), absl::Milliseconds(1)));
    }
    return grpc::Status::OK;
  });
  Export({"a"});
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_THAT(collector_.requests(), SizeIs(3));
  EXPECT_EQ(exporter().counts().exported, 1u);
  EXPECT_EQ(exporter().counts().dropped_failed, 0u);
}

TEST_F(SpanExporterTest, DropsWhatIsRefusedForGoodAndGoesOn) {
  collector_.Set([](int call, auto&) {
    if (call == 0) return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "no");
    if (call == 1) return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "no advice");
    return grpc::Status::OK;
  });
  for (const char* name : {"a", "b", "c"}) {
    Export({name});
    ASSERT_TRUE(exporter().Flush(kLong));
  }
  EXPECT_THAT(collector_.requests(), SizeIs(3));
  EXPECT_EQ(exporter().counts().dropped_failed, 2u);
  EXPECT_EQ(exporter().counts().exported, 1u);
}

TEST_F(SpanExporterTest, CountsWhatTheCollectorTookInPart) {
  collector_.Set([](int, auto& response) {
    response.mutable_partial_success()->set_rejected_spans(2);
    return grpc::Status::OK;
  });
  Export({"a", "b", "c"});
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_EQ(exporter().counts().exported, 1u);
  EXPECT_EQ(exporter().counts().dropped_rejected, 2u);
}

TEST_F(SpanExporterTest, GivesUpABatchAfterAWhile) {
  collector_.Set([](int, auto&) { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "never"); });
  options_.retry_for = absl::Milliseconds(20);
  Export({"a"});
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_EQ(exporter().counts().dropped_failed, 1u);
}

TEST_F(SpanExporterTest, EndsInTimeThoughTheCollectorHangs) {
  collector_.Hold();
  options_.flush_timeout = absl::Milliseconds(20);
  options_.call_timeout = absl::Hours(1);
  Export({"a"});
  exporter_.reset();  // would wait for an hour
  collector_.Release();
}

TEST_F(SpanExporterTest, EndsInTimeThoughNobodyListens) {
  options_.longest_pause = absl::Hours(1);
  options_.first_pause = absl::Hours(1);
  options_.flush_timeout = absl::Milliseconds(200);
  SpanExporter lonely(grpc::CreateChannel("127.0.0.1:1", grpc::InsecureChannelCredentials()),
                      options_);
  lonely.Export({Named("a")});
  EXPECT_FALSE(lonely.Flush(absl::Milliseconds(20))) << "it is tried again in an hour";
}

TEST_F(SpanExporterTest, ShowsItsHeadersAndTheTokenOfTheMoment) {
  const std::string path = std::filesystem::path(::testing::TempDir()) / "collector_token";
  std::ofstream(path) << "first\n";
  options_.headers = {{"Api-Key", "k"}};
  options_.token_file = path;
  Export({"a"});
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_EQ(collector_.metadata("authorization"), "Bearer first");
  EXPECT_EQ(collector_.metadata("api-key"), "k");
  std::ofstream(path) << "second\n";
  Export({"b"});
  ASSERT_TRUE(exporter().Flush(kLong));
  EXPECT_EQ(collector_.metadata("authorization"), "Bearer second");
}

}  // namespace
}  // namespace sluice
