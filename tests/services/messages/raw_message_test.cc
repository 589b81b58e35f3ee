#include "services/messages/raw_message.h"

#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <string>

#include "sluice/v1/generation.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

grpc::ByteBuffer BytesOf(const std::string& text) {
  const grpc::Slice slice(text);
  return grpc::ByteBuffer(&slice, 1);
}

absl::Status Check(const v1::GenerateRequest& request, const MessageLimits& limits = {}) {
  return CheckMessage(SerializeMessage(request), *request.GetDescriptor(), limits);
}

v1::GenerateRequest Conversation(int num_messages) {
  v1::GenerateRequest request;
  for (int i = 0; i < num_messages; ++i) request.mutable_chat()->add_messages();
  return request;
}

TEST(CheckMessage, CountsMessagesWithinMessages) {
  const MessageLimits limits = {.entries = 11};  // the chat itself is one
  EXPECT_TRUE(Check(Conversation(10), limits).ok());
  const absl::Status refused = Check(Conversation(11), limits);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(),
            "the request holds more than 11 texts and messages, at last in "
            "sluice.v1.Chat.messages");
}

TEST(CheckMessage, CountsTexts) {
  v1::GenerateRequest request;
  for (int i = 0; i < 5; ++i) request.mutable_stop()->add_stop_strings("");
  EXPECT_TRUE(Check(request, {.entries = 6}).ok());
  EXPECT_THAT(std::string(Check(request, {.entries = 5}).message()),
              HasSubstr("StopOptions.stop_strings"));
}

TEST(CheckMessage, CountsNumbersOfListsAndOthers) {
  v1::GenerateRequest request;
  for (int i = 0; i < 100; ++i)
    request.mutable_token_ids()->add_token_ids(i * 1000);  // of 1 to 3 bytes
  request.set_n(3);
  EXPECT_TRUE(Check(request, {.numbers = 101}).ok());
  const absl::Status refused = Check(request, {.numbers = 99});
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("more than 99 numbers, at last in sluice.v1.TokenIds.token_ids"));
  EXPECT_FALSE(Check(request, {.numbers = 100}).ok());
}

TEST(CheckMessage, CountsWhatItDoesNotKnow) {
  v1::GenerateRequest request;
  auto& unknown = *request.GetReflection()->MutableUnknownFields(&request);
  for (int i = 0; i < 10; ++i) unknown.AddVarint(9999, 1);
  for (int i = 0; i < 10; ++i) unknown.AddLengthDelimited(9998, "text");
  EXPECT_TRUE(Check(request, {.entries = 20}).ok());
  EXPECT_FALSE(Check(request, {.entries = 19}).ok());
}

TEST(CheckMessage, RefusesMoreBytesThanTheLimit) {
  v1::GenerateRequest request;
  request.set_text(std::string(1000, 'x'));
  EXPECT_TRUE(Check(request, {.bytes = 1003}).ok());
  const absl::Status refused = Check(request, {.bytes = 1002});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(refused.message(), "the request has 1003 bytes; accepted: up to 1002");
}

// A parser keeps it as it keeps what it does not know.
TEST(CheckMessage, CountsNumbersThatAreNoneOfTheirFields) {
  v1::GenerateRequest request;
  auto& unknown = *request.GetReflection()->MutableUnknownFields(&request);
  for (int i = 0; i < 10; ++i) unknown.AddVarint(v1::GenerateRequest::kRequestIdFieldNumber, 1);
  for (int i = 0; i < 10; ++i) unknown.AddFixed64(v1::GenerateRequest::kNFieldNumber, 1);
  for (int i = 0; i < 10; ++i) unknown.AddLengthDelimited(v1::GenerateRequest::kNFieldNumber, "12");
  EXPECT_TRUE(Check(request, {.entries = 30, .numbers = 0}).ok());
  EXPECT_FALSE(Check(request, {.entries = 29, .numbers = 0}).ok());
}

TEST(CheckMessage, CountsNumbersOfAListThatComeOneByOne) {
  v1::TokenIds ids;
  auto& single = *ids.GetReflection()->MutableUnknownFields(&ids);
  for (int i = 0; i < 10; ++i) single.AddVarint(v1::TokenIds::kTokenIdsFieldNumber, 1);
  const grpc::ByteBuffer bytes = SerializeMessage(ids);
  EXPECT_TRUE(CheckMessage(bytes, *ids.GetDescriptor(), {.entries = 0, .numbers = 10}).ok());
  EXPECT_FALSE(CheckMessage(bytes, *ids.GetDescriptor(), {.entries = 0, .numbers = 9}).ok());
}

// It holds field 4 with one byte, which is no Chat.
constexpr char kUnknownGroup[] = "\xa3\x06\x22\x01\x07\xa4\x06";

TEST(CheckMessage, TakesNothingWithinAnUnknownGroupForAFieldOfTheMessage) {
  const std::string bytes = kUnknownGroup + Conversation(10).SerializeAsString();
  ASSERT_TRUE(ParseMessage<v1::GenerateRequest>(BytesOf(bytes)).ok());
  const auto& type = *v1::GenerateRequest::descriptor();
  EXPECT_TRUE(CheckMessage(BytesOf(bytes), type, {.entries = 13}).ok());
  EXPECT_FALSE(CheckMessage(BytesOf(bytes), type, {.entries = 12}).ok());
}

TEST(ParseMessage, RefusesTheEndOfAGroupThatDidNotBegin) {
  for (const std::string& end : {std::string("\xa4\x06"), std::string("\x04")}) {
    const std::string chat = Conversation(10).SerializeAsString();
    EXPECT_FALSE(ParseMessage<v1::GenerateRequest>(BytesOf(end + chat)).ok());
    EXPECT_FALSE(ParseMessage<v1::GenerateRequest>(BytesOf(chat + end)).ok());
  }
}

// Some 30 million messages, of which a parser makes gigabytes.
TEST(CheckMessage, EndsWithTheFirstThatIsTooMany) {
  std::string messages;
  for (int i = 0; i < 1 << 20; ++i) messages += std::string("\x0a\x00", 2);
  v1::GenerateRequest request;
  std::string bytes = "\x22";  // chat, of a length that the bytes need not have
  bytes += std::string("\x80\x80\x80\x01", 4) + messages;
  for (const std::string& before : {std::string(), std::string(kUnknownGroup)}) {
    const auto parsed = ParseMessage<v1::GenerateRequest>(BytesOf(before + bytes));
    EXPECT_THAT(
        std::string(parsed.status().message()),
        HasSubstr("more than 262144 texts and messages, at last in sluice.v1.Chat.messages"));
  }
}

TEST(CheckMessage, LeavesWhatIsMalformedToTheParser) {
  v1::GenerateRequest request = Conversation(3);
  request.set_request_id("some");
  const std::string whole = request.SerializeAsString();
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(CheckMessage(BytesOf(whole.substr(0, length)), *request.GetDescriptor()).ok());
  }
  const auto refused = ParseMessage<v1::GenerateRequest>(BytesOf("\xff\xff"));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("the request is no sluice.v1.GenerateRequest"));
}

// A constraint holds tags, which hold constraints.
TEST(CheckMessage, GoesNoDeeperThanTheParser) {
  v1::Constraint innermost;
  innermost.set_regex("a");
  for (int i = 0; i < 500; ++i) {
    v1::Constraint outer;
    *outer.mutable_structural_tags()->add_tags()->mutable_content() = innermost;
    innermost = outer;
  }
  v1::GenerateRequest request;
  *request.mutable_constraint() = innermost;
  EXPECT_TRUE(Check(request).ok());
  EXPECT_FALSE(ParseMessage<v1::GenerateRequest>(SerializeMessage(request)).ok());
}

TEST(ParseMessage, GivesTheMessage) {
  const auto parsed = ParseMessage<v1::GenerateRequest>(SerializeMessage(Conversation(2)));
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->chat().messages_size(), 2);
  EXPECT_TRUE(ParseMessage<v1::GenerateRequest>(BytesOf("")).ok());
}

}  // namespace
}  // namespace sluice
