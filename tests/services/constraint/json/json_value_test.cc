#include "services/constraint/json/json_value.h"

#include <gtest/gtest.h>

#include <string>

#include "services/constraint/json/decimal.h"

namespace sluice {
namespace {

TEST(JsonValue, KeepsOrderAndNumbersAsWritten) {
  const auto value = ParseJsonValue(R"( {"b": [1.50, -0, 1e5], "a": {"\u00e9\n": null}} )");
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(JsonText(*value), "{\"b\":[1.50,-0,1e5],\"a\":{\"\u00e9\\n\":null}}");
}

TEST(JsonValue, RefusesWhatIsNotJson) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":1,}", "01", "1.", "nul", "\"a", "\"\\x\"",
                           "\"\\ud800\"", "[1] 2", "{\"a\":1,\"a\":2}", "\"\t\"", "{a:1}", "+1"})
    EXPECT_EQ(ParseJsonValue(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_EQ(ParseJsonValue(std::string(1000, '[')).status().code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(JsonValue, EqualsByValue) {
  const auto equal = [](const char* a, const char* b) {
    return JsonEqual(*ParseJsonValue(a), *ParseJsonValue(b));
  };
  EXPECT_TRUE(equal("1", "1.0"));
  EXPECT_TRUE(equal("100", "1e2"));
  EXPECT_FALSE(equal("9007199254740993", "9007199254740992"));
  EXPECT_TRUE(equal("{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}"));
  EXPECT_FALSE(equal("[1,2]", "[2,1]"));
  EXPECT_FALSE(equal("0", "false"));
}

TEST(Decimal, Compares) {
  const auto order = [](const char* a, const char* b) {
    const int c = Decimal::Parse(a).Compare(Decimal::Parse(b));
    return (c > 0) - (c < 0);
  };
  EXPECT_EQ(order("0", "-0"), 0);
  EXPECT_EQ(order("-1", "0"), -1);
  EXPECT_EQ(order("0.1", "0.09"), 1);
  EXPECT_EQ(order("-0.1", "-0.09"), -1);
  EXPECT_EQ(order("1e3", "1000.0"), 0);
  EXPECT_EQ(order("123", "1230"), -1);
}

}  // namespace
}  // namespace sluice
