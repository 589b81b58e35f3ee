// Where spans go, by flags and environment.
#include "services/telemetry/telemetry_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <tuple>

#include "tests/services/telemetry/fake_collector.h"
#include "tests/testing/test_authority.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using Variables = std::map<std::string, std::string>;

absl::StatusOr<std::optional<TelemetryOptions>> Make(const TelemetryFlags& flags,
                                                     const Variables& variables = {}) {
  return MakeTelemetryOptions("sluice-tested", flags, [&variables](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

std::string Resource(const TelemetryOptions& options, const std::string& key) {
  for (const SpanAttribute& attribute : options.exporter.resource) {
    if (attribute.key == key && std::holds_alternative<std::string>(attribute.value)) {
      return std::get<std::string>(attribute.value);
    }
  }
  return "";
}

TEST(TelemetryOptions, AreNoneWhereNoCollectorIsNamed) {
  const auto options = Make({});
  ASSERT_TRUE(options.ok());
  EXPECT_FALSE(options->has_value());
}

TEST(TelemetryOptions, ComeFromTheEnvironmentAsItsStandardSays) {
  const Variables variables = {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"},
                               {"OTEL_SERVICE_NAME", "stories"},
                               {"OTEL_RESOURCE_ATTRIBUTES", "service.name=no,team=a%20b"},
                               {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=1"}};
  const auto made = Make({}, variables);
  ASSERT_TRUE(made.ok() && made->has_value());
  const TelemetryOptions& options = **made;
  EXPECT_EQ(options.address, "collector:4317");
  EXPECT_TRUE(options.security.insecure);
  EXPECT_EQ(Resource(options, "service.name"), "stories");
  EXPECT_EQ(Resource(options, "team"), "a b");
  EXPECT_THAT(options.exporter.headers, ElementsAre(Pair("api-key", "1")));
  EXPECT_EQ(options.sampler, TraceSampler{});
}

TEST(TelemetryOptions, TakeTheVariablesOfTracesBeforeThoseOfAllSignals) {
  const auto made = Make({}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://metrics:1"},
                              {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces:2"},
                              {"OTEL_EXPORTER_OTLP_HEADERS", "for=all"},
                              {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "for=traces"},
                              {"OTEL_EXPORTER_OTLP_CERTIFICATE", "all.crt"},
                              {"OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "traces.crt"},
                              {"OTEL_EXPORTER_OTLP_TIMEOUT", "1"},
                              {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "2500"}});
  ASSERT_TRUE(made.ok() && made->has_value());
  EXPECT_EQ((*made)->address, "traces:2");
  EXPECT_EQ((*made)->security.tls.authority, "traces.crt");
  EXPECT_THAT((*made)->exporter.headers, ElementsAre(Pair("for", "traces")));
  EXPECT_EQ((*made)->exporter.call_timeout, absl::Milliseconds(2500));
}

TEST(TelemetryOptions, SampleAsTheEnvironmentSays) {
  for (const auto& [name, argument, expected] :
       {std::tuple("always_off", "", TraceSampler{.follows_caller = false, .ratio = 0}),
        std::tuple("parentbased_traceidratio", "0.25", TraceSampler{.ratio = 0.25}),
        std::tuple("jaeger_remote", "endpoint=x", TraceSampler{}),
        std::tuple("traceidratio", "1.5", TraceSampler{})}) {
    const auto made = Make({.endpoint = "127.0.0.1:1"},
                           {{"OTEL_TRACES_SAMPLER", name}, {"OTEL_TRACES_SAMPLER_ARG", argument}});
    ASSERT_TRUE(made.ok() && made->has_value());
    EXPECT_EQ((*made)->sampler, expected) << name;
  }
}

TEST(TelemetryOptions, SendInBatchesAsTheEnvironmentSays) {
  const auto made = Make({.endpoint = "127.0.0.1:1"}, {{"OTEL_BSP_SCHEDULE_DELAY", "5000"},
                                                       {"OTEL_BSP_EXPORT_TIMEOUT", "30000"},
                                                       {"OTEL_BSP_MAX_QUEUE_SIZE", "100"},
                                                       {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "200"}});
  ASSERT_TRUE(made.ok() && made->has_value());
  const SpanExporterOptions& exporter = (*made)->exporter;
  EXPECT_EQ(exporter.batch_delay, absl::Seconds(5));
  EXPECT_EQ(exporter.retry_for, absl::Seconds(30));
  EXPECT_EQ(exporter.max_queued, 100u);
  EXPECT_EQ(exporter.max_batch, 100u);  // no more than wait
}

TEST(TelemetryOptions, KeepWhatTheyWereWhereANumberIsWrong) {
  const SpanExporterOptions usual;
  for (const char* wrong : {"-1", "soon", "1.5", "99999999999"}) {
    const auto made = Make({.endpoint = "127.0.0.1:1"}, {{"OTEL_BSP_SCHEDULE_DELAY", wrong},
                                                         {"OTEL_BSP_EXPORT_TIMEOUT", wrong},
                                                         {"OTEL_BSP_MAX_QUEUE_SIZE", wrong},
                                                         {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"}});
    ASSERT_TRUE(made.ok() && made->has_value());
    EXPECT_EQ((*made)->exporter.batch_delay, usual.batch_delay) << wrong;
    EXPECT_EQ((*made)->exporter.retry_for, usual.retry_for) << wrong;
    EXPECT_EQ((*made)->exporter.max_queued, usual.max_queued) << wrong;
    EXPECT_EQ((*made)->exporter.max_batch, usual.max_batch) << wrong;
  }
}

TEST(TelemetryOptions, NameTheProgramWhereNobodyDoes) {
  const auto made = Make({.endpoint = "127.0.0.1:4317"});
  ASSERT_TRUE(made.ok() && made->has_value());
  EXPECT_EQ(Resource(**made, "service.name"), "sluice-tested");
  EXPECT_THAT(Resource(**made, "service.version"), HasSubstr("."));
}

TEST(TelemetryOptions, FlagsGoBeforeTheEnvironment) {
  const auto made = Make({.endpoint = "127.0.0.1:1", .sample_ratio = 0.5},
                         {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4317"},
                          {"OTEL_SDK_DISABLED", "true"},
                          {"OTEL_TRACES_SAMPLER", "always_off"}});
  ASSERT_TRUE(made.ok() && made->has_value());
  EXPECT_EQ((*made)->address, "127.0.0.1:1");
  EXPECT_EQ((*made)->sampler, TraceSampler{.ratio = 0.5});
}

TEST(TelemetryOptions, VariablesForOtherProgramsStopNothing) {
  for (const Variables& variables :
       {Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/v1/traces"}},
        Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"},
                  {"OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"}},
        Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"}, {"OTEL_SDK_DISABLED", "TRUE"}},
        Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"},
                  {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json"},
                  {"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}},
        Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"},
                  {"OTEL_TRACES_EXPORTER", "none"}},
        Variables{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"},
                  {"OTEL_TRACES_EXPORTER", "zipkin"}},
        Variables{{"OTEL_RESOURCE_ATTRIBUTES", "what"}}}) {
    const auto made = Make({}, variables);
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_FALSE(made->has_value());
  }
}

TEST(TelemetryOptions, ArePlaintextOnThisHostAndTlsBeyond) {
  EXPECT_FALSE((*Make({.endpoint = "127.0.0.1:1"}))->security.wants_tls());
  EXPECT_FALSE((*Make({.endpoint = "unix:/x"}))->security.wants_tls());
  EXPECT_TRUE((*Make({.endpoint = "collector:1"}))->security.wants_tls());
  EXPECT_TRUE((*Make({.endpoint = "https://127.0.0.1:1"}))->security.wants_tls());
  EXPECT_TRUE((*Make({.endpoint = "127.0.0.1:1", .authority = "ca.crt"}))->security.wants_tls());
  EXPECT_FALSE((*Make({.endpoint = "http://collector:1"}))->security.wants_tls());
}

TEST(TelemetryOptions, RefuseFlagsThatAreWrong) {
  const struct {
    TelemetryFlags flags;
    const char* message;
  } cases[] = {
      {{.endpoint = "collector"}, "--otlp_endpoint: \"collector\" is no endpoint"},
      {{.authority = "ca.crt"}, "the collector that --otlp_endpoint names"},
      {{.sample_ratio = 0.5}, "the collector that --otlp_endpoint names"},
      {{.sample_ratio = 3}, "--otlp_sample_ratio is 3; accepted: 0 to 1"},
      {{.endpoint = "http://c:1", .authority = "ca.crt"}, "says plaintext"},
      {{.endpoint = "http://c:1", .token_file = "t"}, "no token goes to another host in plaintext"},
      {{.endpoint = "c:1", .sample_ratio = 1.5}, "--otlp_sample_ratio is 1.5; accepted: 0 to 1"},
      {{.endpoint = "c:1", .sample_ratio = std::nan("")}, "accepted: 0 to 1"},
  };
  for (const auto& wrong : cases) {
    const auto made = Make(wrong.flags);
    EXPECT_EQ(made.status().code(), absl::StatusCode::kInvalidArgument) << wrong.message;
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(wrong.message));
  }
}

TEST(TelemetryOptions, LetTheEnvironmentSwitchOffWhatFlagsAreAbout) {
  const auto made = Make({.sample_ratio = 0.5}, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317"},
                                                 {"OTEL_TRACES_EXPORTER", "none"}});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_FALSE(made->has_value());
}

TEST(TelemetryOptions, ReachACollectorOverTls) {
  testing::TestAuthority authority(::testing::TempDir(), "telemetry");
  const TlsFiles files = authority.Issue("telemetry_server", {.names = {"IP:127.0.0.1"}});
  const auto credentials = PublicServerCredentials(
      "127.0.0.1:0", {.tls = {.certificate = files.certificate, .key = files.key}});
  ASSERT_TRUE(credentials.ok()) << credentials.status();
  testing::FakeCollector collector(*credentials);
  for (const auto& [ca, sent] :
       {std::pair(authority.certificate(), 1u),
        std::pair(testing::TestAuthority(::testing::TempDir(), "other").certificate(), 0u)}) {
    auto made = Make({.endpoint = collector.address(), .authority = ca});
    ASSERT_TRUE(made.ok() && made->has_value()) << made.status();
    (*made)->exporter.retry_for = absl::ZeroDuration();
    const auto tracer = StartTracer(**made);
    ASSERT_TRUE(tracer.ok()) << tracer.status();
    (*tracer)->End({(*tracer)->Begin(std::nullopt)});
    EXPECT_TRUE((*tracer)->Flush(absl::Minutes(1)));
    EXPECT_EQ((*tracer)->counts().exported, sent);
    EXPECT_EQ((*tracer)->counts().dropped_failed, 1 - sent);
  }
}

}  // namespace
}  // namespace sluice
