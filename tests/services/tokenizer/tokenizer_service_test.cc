// The tokenizer's gRPC face, in process, with the project's own model and with none.
#include "services/tokenizer/tokenizer_service.h"

#include <gmock/gmock.h>
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "services/common/status.h"
#include "services/messages/expected_tokenizer.h"
#include "services/model/json_fields.h"
#include "services/rpc/server.h"
#include "services/work/work_metadata.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

class TokenizerServiceTest : public ::testing::Test {
 protected:
  static const Tokenizer& Storyteller() {
    static const Tokenizer* const tokenizer =
        Tokenizer::Load(testing::ProjectPath("models/storyteller"))->release();
    return *tokenizer;
  }

  explicit TokenizerServiceTest(const Tokenizer* tokenizer = &Storyteller())
      : service_({"storyteller", "d1935"}, tokenizer),
        server_(*Server::Start({.address = "inproc:tokenizer", .services = {&service_}})),
        stub_(v1::TokenizerService::NewStub(
            server_->grpc_server()->InProcessChannel(grpc::ChannelArguments()))) {}

  template <class Request, class Response>
  absl::Status Call(grpc::Status (v1::TokenizerService::Stub::*method)(grpc::ClientContext*,
                                                                       const Request&, Response*),
                    const Request& request, Response& response) {
    grpc::ClientContext context;
    return FromGrpc((stub_.get()->*method)(&context, request, &response));
  }
  absl::Status Tokenize(const v1::TokenizeRequest& request, v1::TokenizeResponse& response) {
    return Call(&v1::TokenizerService::Stub::Tokenize, request, response);
  }
  absl::Status Detokenize(const v1::DetokenizeRequest& request, v1::DetokenizeResponse& response) {
    return Call(&v1::TokenizerService::Stub::Detokenize, request, response);
  }
  absl::Status GetVocabulary(int first, int size, v1::GetVocabularyResponse& response) {
    v1::GetVocabularyRequest request;
    request.set_first_token_id(first);
    request.set_page_size(size);
    return Call(&v1::TokenizerService::Stub::GetVocabulary, request, response);
  }
  std::vector<int32_t> Ids(const std::string& text) {
    v1::TokenizeRequest request;
    request.set_text(text);
    request.set_add_special_tokens(false);
    v1::TokenizeResponse response;
    EXPECT_EQ(Tokenize(request, response), absl::OkStatus());
    return {response.token_ids().begin(), response.token_ids().end()};
  }

  TokenizerService service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::TokenizerService::Stub> stub_;
};

TEST_F(TokenizerServiceTest, TokenizesAndDetokenizes) {
  // The second is long enough for the thread of long texts.
  std::string text = "Once upon a time, \"there\" was a k\xC3\xB6nig.\n";
  for (const std::string& repeated : {text, [&] {
                                        std::string all;
                                        while (all.size() < (70 << 10)) all += text;
                                        return all;
                                      }()}) {
    v1::TokenizeRequest request;
    request.set_text(repeated);
    request.set_add_special_tokens(false);
    request.set_return_offsets(true);
    v1::TokenizeResponse tokens;
    ASSERT_EQ(Tokenize(request, tokens), absl::OkStatus());
    ASSERT_GT(tokens.num_tokens(), 5);
    ASSERT_EQ(tokens.token_ids_size(), tokens.num_tokens());
    ASSERT_EQ(tokens.begin_bytes_size(), tokens.num_tokens());
    ASSERT_EQ(tokens.end_bytes_size(), tokens.num_tokens());
    EXPECT_EQ(tokens.end_bytes(tokens.num_tokens() - 1), repeated.size());
    v1::DetokenizeRequest back;
    *back.mutable_token_ids() = tokens.token_ids();
    v1::DetokenizeResponse detokenized;
    ASSERT_EQ(Detokenize(back, detokenized), absl::OkStatus());
    EXPECT_EQ(detokenized.text(), repeated);
    request.set_count_only(true);
    v1::TokenizeResponse count;
    ASSERT_EQ(Tokenize(request, count), absl::OkStatus());
    EXPECT_EQ(count.num_tokens(), tokens.num_tokens());
    EXPECT_EQ(count.token_ids_size(), 0);
  }
}

// A text that takes a good part of a second.
v1::TokenizeRequest LongRequest() {
  v1::TokenizeRequest request;
  uint32_t state = 1;
  request.set_count_only(true);  // the ids are more than a client takes
  while (request.text().size() < (size_t{4} << 20)) {
    state = state * 1664525 + 1013904223;
    request.mutable_text()->push_back(static_cast<char>('a' + (state >> 24) % 26));
  }
  return request;
}

TEST_F(TokenizerServiceTest, EndsACallThatHasTakenAllThatItsRequestMay) {
  const v1::TokenizeRequest request = LongRequest();
  const auto call = [&](absl::Duration budget, absl::Duration& work) {
    grpc::ClientContext context;
    SetWork({.owner = {"costly"}, .meter = std::make_shared<WorkMeter>(budget)}, context);
    v1::TokenizeResponse response;
    const absl::Status status = FromGrpc(stub_->Tokenize(&context, request, &response));
    work = WorkOf(context);
    return status;
  };
  absl::Duration whole, taken;
  ASSERT_EQ(call(absl::Minutes(10), whole), absl::OkStatus());
  const absl::Status ended = call(absl::Milliseconds(2), taken);
  EXPECT_EQ(ended.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(ended.message()), HasSubstr("max_request_work: "));
  EXPECT_GE(taken, absl::Milliseconds(2));
  EXPECT_LT(taken, whole / 4) << "it went on";
}

TEST_F(TokenizerServiceTest, EndsTheWorkOfACallWhoseDeadlineHasPassed) {
  const v1::TokenizeRequest request = LongRequest();
  const absl::Time begin = absl::Now();
  v1::TokenizeResponse response;
  ASSERT_EQ(Tokenize(request, response), absl::OkStatus());
  const absl::Duration whole = absl::Now() - begin;
  const absl::Time begin_of_last = absl::Now();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(begin_of_last + whole / 20));
  EXPECT_EQ(FromGrpc(stub_->Tokenize(&context, request, &response)).code(),
            absl::StatusCode::kDeadlineExceeded);
  server_->Shutdown(absl::Minutes(1));  // waits for calls that are under way
  EXPECT_LT(absl::Now() - begin_of_last, whole / 2) << "it went on";
}

TEST_F(TokenizerServiceTest, TellsWhatShortCallsTake) {
  grpc::ClientContext context;
  v1::TokenizeRequest request;
  request.set_text(std::string(1000, 'q'));
  v1::TokenizeResponse response;
  ASSERT_TRUE(stub_->Tokenize(&context, request, &response).ok());
  EXPECT_GT(WorkOf(context), absl::ZeroDuration());
}

TEST_F(TokenizerServiceTest, AnswersNothingForAnotherTokenizer) {
  const auto call = [this](const auto& method, const auto& request, auto response,
                           const std::string& expected) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    ExpectTokenizer(context, expected);
    return FromGrpc((stub_.get()->*method)(&context, request, &response));
  };
  using Stub = v1::TokenizerService::Stub;
  for (const char* expected : {"d1935", "", "another"}) {
    v1::DetokenizeRequest ids;
    ids.add_token_ids(1);
    v1::ApplyChatTemplateRequest chat;
    chat.add_messages()->set_role("user");
    const absl::Status answers[] = {
        call(&Stub::Tokenize, v1::TokenizeRequest(), v1::TokenizeResponse(), expected),
        call(&Stub::Detokenize, ids, v1::DetokenizeResponse(), expected),
        call(&Stub::GetVocabulary, v1::GetVocabularyRequest(), v1::GetVocabularyResponse(),
             expected)};
    for (const absl::Status& answer : answers) {
      EXPECT_EQ(answer.code(), std::string(expected) == "another" ? absl::StatusCode::kAborted
                                                                  : absl::StatusCode::kOk)
          << expected << ": " << answer;
    }
    const absl::Status rendered =
        call(&Stub::ApplyChatTemplate, chat, v1::ApplyChatTemplateResponse(), expected);
    EXPECT_EQ(absl::IsAborted(rendered), std::string(expected) == "another") << rendered;
  }
  grpc::ClientContext context;
  ExpectTokenizer(context, "another");
  const auto stream = stub_->DetokenizeStream(&context);
  v1::DetokenizeStreamResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_THAT(status.error_message(), HasSubstr("SHA-256 is d1935, expected another"));
}

TEST_F(TokenizerServiceTest, SaysWhatIsWrongWithATextOrId) {
  v1::TokenizeRequest request;
  request.set_text("abc\xFF");
  v1::TokenizeResponse tokens;
  const absl::Status invalid = Tokenize(request, tokens);
  EXPECT_EQ(invalid.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(invalid.message()), HasSubstr("3"));
  for (const int32_t id : {-1, 1 << 20}) {
    v1::DetokenizeRequest back;
    back.add_token_ids(5);
    back.add_token_ids(id);
    v1::DetokenizeResponse text;
    const absl::Status outside = Detokenize(back, text);
    EXPECT_EQ(outside.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(outside.message()), HasSubstr(std::to_string(id)));
  }
}

TEST_F(TokenizerServiceTest, GivesTheVocabularyPageByPage) {
  v1::GetTokenizerInfoResponse info;
  ASSERT_TRUE(Call(&v1::TokenizerService::Stub::GetInfo, v1::GetTokenizerInfoRequest(), info).ok());
  EXPECT_TRUE(info.has_tokenizer());
  EXPECT_EQ(info.model_name(), "storyteller");
  EXPECT_GT(info.max_text_bytes(), 0u);
  for (const int page_size : {0, 1000, 5000, 700}) {
    std::map<int32_t, std::string> seen;
    int first = 0;
    do {
      v1::GetVocabularyResponse page;
      ASSERT_EQ(GetVocabulary(first, page_size, page), absl::OkStatus());
      EXPECT_LE(page.entries_size(), page_size == 700 ? 700 : 1000);
      for (const v1::VocabularyEntry& entry : page.entries()) {
        EXPECT_TRUE(seen.emplace(entry.token_id(), entry.text()).second);
      }
      ASSERT_TRUE(page.next_token_id() == 0 || page.next_token_id() > first);
      first = page.next_token_id();
    } while (first != 0);
    EXPECT_EQ(static_cast<int>(seen.size()), info.vocabulary_size()) << "page size " << page_size;
    std::string text;
    for (const int32_t id : Ids("The old k\xC3\xB6nig")) text += seen.at(id);
    EXPECT_EQ(text, "The old k\xC3\xB6nig");
  }
  v1::GetVocabularyResponse page;
  EXPECT_EQ(GetVocabulary(-1, 0, page).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetVocabulary(1 << 20, 0, page).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetVocabulary(0, -1, page).code(), absl::StatusCode::kInvalidArgument);
}

v1::DetokenizeStreamRequest To(uint64_t id) {
  v1::DetokenizeStreamRequest request;
  request.set_sequence_id(id);
  return request;
}

v1::DetokenizeStreamRequest Open(uint64_t id, const std::string& stop = "") {
  v1::DetokenizeStreamRequest request = To(id);
  request.mutable_open();
  if (!stop.empty()) request.mutable_open()->add_stop_strings(stop);
  return request;
}

v1::DetokenizeStreamRequest Append(uint64_t id, const std::vector<int32_t>& ids) {
  v1::DetokenizeStreamRequest request = To(id);
  request.mutable_append()->mutable_token_ids()->Add(ids.begin(), ids.end());
  return request;
}

v1::DetokenizeStreamRequest Finish(uint64_t id) {
  v1::DetokenizeStreamRequest request = To(id);
  request.mutable_finish();
  return request;
}

TEST_F(TokenizerServiceTest, StreamsSequencesWithoutFaultsOfOneDisturbingAnother) {
  const std::vector<int32_t> ids = Ids("The old king went into the wood.");
  grpc::ClientContext context;
  const auto stream = stub_->DetokenizeStream(&context);
  std::vector<v1::DetokenizeStreamRequest> requests = {Open(1), Open(2, "king"), Open(3)};
  for (const int32_t id : ids) {
    requests.push_back(Append(1, {id}));
    requests.push_back(Append(2, {id}));
    if (id == ids[1]) {
      requests.push_back(Open(3));          // open already: ends it
      requests.push_back(Append(3, {5}));   // no longer open
      requests.push_back(Append(77, {5}));  // never was
      requests.push_back(To(78));           // says nothing
      requests.push_back(Finish(79));       // unanswered
    }
  }
  requests.push_back(Finish(1));
  for (const v1::DetokenizeStreamRequest& request : requests) ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  std::map<uint64_t, std::string> text;
  std::map<uint64_t, std::vector<int>> errors;
  v1::DetokenizeStreamResponse response, last, stopped;
  while (stream->Read(&response)) {
    const uint64_t id = response.sequence_id();
    text[id] += response.text();
    if (response.error_code() != 0) errors[id].push_back(response.error_code());
    if (id == 1) last = response;
    if (response.has_stop_string_index()) stopped = response;
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(text[1], "The old king went into the wood.");
  EXPECT_TRUE(last.finished());
  EXPECT_EQ(last.num_tokens(), ids.size());
  EXPECT_EQ(text[2], "The old ");
  EXPECT_EQ(stopped.sequence_id(), 2u);
  EXPECT_EQ(stopped.stop_string_index(), 0);
  EXPECT_LT(stopped.num_tokens(), ids.size());
  const int not_found = static_cast<int>(absl::StatusCode::kNotFound);
  EXPECT_EQ(errors[1], std::vector<int>{});
  EXPECT_EQ(errors[3],
            (std::vector<int>{static_cast<int>(absl::StatusCode::kAlreadyExists), not_found}));
  EXPECT_EQ(errors[77], std::vector<int>{not_found});
  EXPECT_EQ(errors[78], std::vector<int>{static_cast<int>(absl::StatusCode::kInvalidArgument)});
  EXPECT_FALSE(text.contains(79));
}

TEST_F(TokenizerServiceTest, KeepsTheSpecialTokensThatASequenceNames) {
  const TokenId special = Storyteller().SpecialIds().at(0);
  const std::string name(Storyteller().TokenText(special));
  grpc::ClientContext context;
  const auto stream = stub_->DetokenizeStream(&context);
  std::vector<v1::DetokenizeStreamRequest> requests = {Open(1), Open(2), Open(3)};
  for (auto& open : requests) open.mutable_open()->set_skip_special_tokens(true);
  requests[1].mutable_open()->add_kept_special_tokens("no token");
  requests[1].mutable_open()->add_kept_special_tokens(name);
  for (int i = 0; i < 65; ++i) requests[2].mutable_open()->add_kept_special_tokens(name);
  for (const uint64_t id : {1, 2}) {
    requests.push_back(Append(id, {special}));
    requests.push_back(Finish(id));
  }
  for (const v1::DetokenizeStreamRequest& request : requests) ASSERT_TRUE(stream->Write(request));
  stream->WritesDone();
  std::map<uint64_t, std::string> text;
  int refused = 0;
  v1::DetokenizeStreamResponse response;
  while (stream->Read(&response)) {
    text[response.sequence_id()] += response.text();
    if (response.sequence_id() == 3) refused = response.error_code();
  }
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(text[1], "");
  EXPECT_EQ(text[2], name);
  EXPECT_EQ(refused, static_cast<int>(absl::StatusCode::kInvalidArgument));
}

TEST_F(TokenizerServiceTest, RequestsThatComeTogetherAreAnsweredTogetherAsIfEachCameAlone) {
  const std::vector<int32_t> ids = Ids("The old king");
  v1::DetokenizeStreamRequest together = Open(1);
  *together.add_others() = Open(2);
  *together.add_others() = Append(1, ids);
  *together.add_others() = Append(3, {5});  // never was open
  *together.add_others() = Append(2, {ids[0]});
  *together.add_others() = Finish(1);
  grpc::ClientContext context;
  const auto stream = stub_->DetokenizeStream(&context);
  ASSERT_TRUE(stream->Write(together));
  stream->WritesDone();
  v1::DetokenizeStreamResponse first, none;
  ASSERT_TRUE(stream->Read(&first));
  EXPECT_FALSE(stream->Read(&none)) << "there is one answer";
  EXPECT_TRUE(stream->Finish().ok());
  std::vector<v1::DetokenizeStreamResponse> answers = {first};
  answers.insert(answers.end(), first.others().begin(), first.others().end());
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].sequence_id(), 1u);
  EXPECT_EQ(answers[1].sequence_id(), 3u);
  EXPECT_EQ(answers[1].error_code(), static_cast<int>(absl::StatusCode::kNotFound));
  EXPECT_EQ(answers[2].sequence_id(), 2u);
  EXPECT_EQ(answers[2].num_tokens(), 1u);
  EXPECT_TRUE(answers[3].finished());
  EXPECT_EQ(answers[0].text() + answers[3].text(), "The old king");
}

class ChatTest : public TokenizerServiceTest {
 protected:
  // The project's own tokenizer with templates: one that spells a special token, one that is none.
  static const Tokenizer& WithTemplates() {
    static const Tokenizer* const tokenizer = [] {
      TokenizerConfig config;
      config.chat_templates = {
          {"default",
           "{% for m in messages %}{{ eos_token }}{{ m.role }}: {{ m.content }}{% endfor %}"
           "{% if add_generation_prompt %}>{% endif %}{% if tools %}{{ tools|tojson }}{% endif %}"
           "{{ extra }}{{ messages[0].name }}{{ messages[0].missing.x if fail }}"},
          {"broken", "{% if %}"}};
      config.chat_template_sources["broken"] = "m/broken.jinja";
      config.special_tokens["eos_token"] = kSpecial;
      const auto text = ReadTextFile(testing::ProjectPath("models/storyteller/tokenizer.json"));
      return Tokenizer::FromJson(*text, "storyteller", config)->release();
    }();
    return *tokenizer;
  }

  ChatTest() : TokenizerServiceTest(&WithTemplates()) { request_.set_tokenize(true); }

  void Say(const std::string& role, const std::string& content) {
    v1::ChatMessage* message = request_.add_messages();
    message->set_role(role);
    message->set_content(content);
  }
  absl::Status Apply() {
    response_.Clear();
    return Call(&v1::TokenizerService::Stub::ApplyChatTemplate, request_, response_);
  }
  // How often the special token is among the ids.
  int NumSpecial() const {
    const TokenId id = *WithTemplates().FindToken(kSpecial);
    return static_cast<int>(
        std::count(response_.token_ids().begin(), response_.token_ids().end(), id));
  }

  static constexpr char kSpecial[] = "<|endoftext|>";
  v1::ApplyChatTemplateRequest request_;
  v1::ApplyChatTemplateResponse response_;
};

TEST_F(ChatTest, RendersMessagesToolsAndVariables) {
  Say("user", "hi");
  request_.mutable_messages(0)->set_extra_json(R"({"name": "Bob"})");
  request_.set_tools_json(R"([{"a": 1}])");
  request_.set_variables_json(R"({"extra": "!"})");
  ASSERT_EQ(Apply(), absl::OkStatus());
  EXPECT_EQ(response_.text(), "<|endoftext|>user: hi>[{\"a\": 1}]!Bob");
  request_.clear_tools_json();
  request_.set_add_generation_prompt(false);
  request_.mutable_messages(0)->set_extra_json(R"({"content": [{"type": "text"}]})");
  ASSERT_EQ(Apply(), absl::OkStatus());
  EXPECT_EQ(response_.text(), "<|endoftext|>user: [{'type': 'text'}]!");
}

TEST_F(ChatTest, RecognisesSpecialTokensOfTheTemplateAlone) {
  Say("user", "once <|endoftext|> upon");
  request_.set_variables_json(R"({"extra": "<|endoftext|>"})");
  ASSERT_EQ(Apply(), absl::OkStatus());
  EXPECT_EQ(NumSpecial(), 1);
  EXPECT_EQ(WithTemplates().Decode(response_.token_ids()).value(), response_.text());
}

TEST_F(ChatTest, GivesTheIdsOfTheWholeTextForHarmlessContents) {
  Say("user", "Once upon a time,  there was ");
  Say("assistant", " a fox.\n");
  ASSERT_EQ(Apply(), absl::OkStatus());
  EXPECT_EQ(NumSpecial(), 2);
  EXPECT_THAT(Ids(response_.text()), ::testing::ElementsAreArray(response_.token_ids()));
}

TEST_F(ChatTest, SaysWhereATemplateFails) {
  Say("user", "hi");
  request_.set_variables_json(R"({"fail": true})");
  const absl::Status status = Apply();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'dict object' has no attribute 'missing'"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("chat_template:1:"));
}

TEST_F(ChatTest, NamesWhatIsWrongWithATemplateOrARequest) {
  Say("user", "hi");
  request_.set_template_name("nope");
  EXPECT_EQ(Apply().code(), absl::StatusCode::kFailedPrecondition);
  request_.set_template_name("broken");
  const absl::Status broken = Apply();
  EXPECT_EQ(broken.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(broken.message()), HasSubstr("compile: broken.jinja:1:"));
  request_.clear_template_name();
  for (const std::string json : {"[", "[1]", "{\"messages\": []}"}) {
    request_.set_variables_json(json);
    EXPECT_EQ(Apply().code(), absl::StatusCode::kInvalidArgument) << json;
  }
  request_.clear_variables_json();
  request_.mutable_messages(0)->set_extra_json(std::string(100000, '['));
  EXPECT_EQ(Apply().code(), absl::StatusCode::kInvalidArgument);
}

class NoTokenizerTest : public TokenizerServiceTest {
 protected:
  NoTokenizerTest() : TokenizerServiceTest(nullptr) {}
};

TEST_F(NoTokenizerTest, RefusesEverythingButGetInfo) {
  v1::GetTokenizerInfoResponse info;
  ASSERT_TRUE(Call(&v1::TokenizerService::Stub::GetInfo, v1::GetTokenizerInfoRequest(), info).ok());
  EXPECT_FALSE(info.has_tokenizer());
  v1::TokenizeResponse tokens;
  v1::DetokenizeResponse text;
  v1::GetVocabularyResponse page;
  v1::ApplyChatTemplateResponse prompt;
  grpc::ClientContext context;
  const auto stream = stub_->DetokenizeStream(&context);
  stream->Write(Open(1));
  for (const absl::Status& status :
       {Tokenize({}, tokens), Detokenize({}, text), GetVocabulary(0, 0, page),
        Call(&v1::TokenizerService::Stub::ApplyChatTemplate, v1::ApplyChatTemplateRequest(),
             prompt),
        FromGrpc(stream->Finish())}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("storyteller has no tokenizer:"));
  }
}

}  // namespace
}  // namespace sluice
