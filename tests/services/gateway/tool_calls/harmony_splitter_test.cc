#include "services/gateway/tool_calls/harmony_splitter.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/services/gateway/tool_calls/split_output.h"

namespace sluice::gateway {
namespace {

void Expect(const std::string& text, const Output& expected) {
  ExpectOutput({.reasoning = ReasoningFormat::kChannels}, {}, text, expected);
}

TEST(HarmonySplitter, ChannelsAreReasoningAndText) {
  Expect("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.",
         {"Yes.", "hm", {}});
  Expect("<|channel|>final<|message|>a < b<|return|>", {"a < b", "", {}});
  Expect(
      "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>analysis<|message|>two"
      "<|end|><|start|>assistant<|channel|>commentary<|message|>I look.<|end|>",
      {"I look.", "one\ntwo", {}});
}

TEST(HarmonySplitter, MessagesToFunctionsAreCalls) {
  // The recipient stands in the role or behind the channel.
  for (const char* header :
       {"<|channel|>commentary to=functions.f <|constrain|>json",
        "<|channel|>commentary to=functions.f", " to=functions.f<|channel|>commentary json",
        "<|channel|>analysis to=functions.f code"}) {
    Expect(std::string(header) + "<|message|>{\"a\": 1}<|call|>", {"", "", {{"f", "{\"a\": 1}"}}});
  }
  Expect(
      "<|channel|>analysis<|message|>hm<|end|><|start|>assistant "
      "to=functions.f<|channel|>commentary "
      "json<|message|><|call|><|start|>assistant<|channel|>commentary to=functions.g<|message|>{}",
      {"", "hm", {{"f", "{}"}, {"g", "{}"}}});
}

TEST(HarmonySplitter, CallsOfOtherToolsAreReasoning) {
  Expect("<|channel|>analysis to=browser.search code<|message|>{\"query\": \"x\"}<|call|>",
         {"", "{\"query\": \"x\"}", {}});
}

TEST(HarmonySplitter, ATextWithoutAHeaderIsForTheReader) {
  Expect("{\"a\": 1}", {"{\"a\": 1}", "", {}});
  Expect(" two\nlines", {" two\nlines", "", {}});
  Expect("<|channel|>ana", {"", "", {}});
}

TEST(HarmonySplitter, AMessageWithoutItsEndIsEndedByTheNextHeader) {
  Expect("<|channel|>analysis<|message|>hm<|channel|>final<|message|>Yes.", {"Yes.", "hm", {}});
  Expect("<|channel|>analysis<|message|>hm<|start|>assistant<|channel|>final<|message|>Yes.",
         {"Yes.", "hm", {}});
}

TEST(HarmonySplitter, HandsOnWhatIsCertainAtOnce) {
  OutputSplitter splitter({.reasoning = ReasoningFormat::kChannels}, {});
  EXPECT_TRUE(splitter.Add("<|channel|>commentary to=functions.f").empty());
  EXPECT_EQ(splitter.Add("<|message|>{\"a\"").calls.at(0).arguments, "{\"a\"");
  EXPECT_EQ(splitter.Add(": 1<").calls.at(0).arguments, ": 1");
  EXPECT_EQ(splitter.Add("}").calls.at(0).arguments, "<}");
}

}  // namespace
}  // namespace sluice::gateway
