#include "services/gateway/json/object_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace sluice::gateway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

std::string Complaint(const ObjectReader& reader) { return std::string(reader.Finish().message()); }

TEST(ObjectReaderTest, FaultsNameTheValueThatWasSent) {
  const json object =
      json::parse(R"({"i": 1.5, "s": "hot", "l": [1], "big": 9223372036854775808})");
  const auto complaint = [&object](auto read) {
    ObjectReader reader(object, "x");
    read(reader);
    return Complaint(reader);
  };
  EXPECT_THAT(complaint([](ObjectReader& r) { r.Integer("i", 0, 9); }),
              HasSubstr("'x.i': expected an integer, but got 1.5 instead"));
  EXPECT_THAT(complaint([](ObjectReader& r) { r.Number("s"); }),
              HasSubstr("expected a number, but got \"hot\" instead"));
  EXPECT_THAT(complaint([](ObjectReader& r) { r.String("l"); }), HasSubstr("got an array instead"));
  EXPECT_THAT(complaint([](ObjectReader& r) { r.Integer("big", 0, 9); }),
              HasSubstr("9223372036854775808 is not from 0 to 9"));
}

TEST(ObjectReaderTest, AllBitsOfAnIntegerCount) {
  const json object = json::parse(
      R"({"a": 18446744073709551615, "b": -9223372036854775808, "c": 7.0, "d": 7.5, "e": 1e30})");
  ObjectReader reader(object);
  EXPECT_EQ(reader.Bits("a"), ~uint64_t{0});
  EXPECT_EQ(reader.Bits("b"), uint64_t{1} << 63);
  EXPECT_EQ(reader.Bits("c"), 7u);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.Bits("d"), std::nullopt);
  EXPECT_EQ(reader.Bits("e"), std::nullopt);
  EXPECT_THAT(Complaint(reader), HasSubstr("'d': expected an integer from -2^63 to 2^64 - 1"));
}

TEST(ObjectReaderTest, WhatNobodyAskedForIsNamed) {
  const json object = {{"known", 1}, {"passed", 2}, {"other", 3}};
  ObjectReader reader(object, "tools[0]");
  reader.Any("known");
  reader.PassOver({"passed"});
  EXPECT_THAT(Complaint(reader), HasSubstr("Unknown parameter: 'tools[0].other'"));
}

}  // namespace
}  // namespace sluice::gateway
