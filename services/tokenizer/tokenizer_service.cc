#include "services/tokenizer/tokenizer_service.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"
#include "services/messages/error_reason.h"
#include "services/messages/expected_tokenizer.h"
#include "services/streams/server_stream.h"
#include "services/tokenizer/chat_context.h"
#include "services/tokenizer/chat_continuation.h"
#include "services/tokenizer/detokenize_session.h"
#include "services/work/work_metadata.h"

namespace sluice {
namespace {

// Texts that are done at once, on the thread of their call: no longer than others wait for a slice.
constexpr size_t kShortTextBytes = 1024;
constexpr int kFewTokens = 512;
// Texts that take so long that others are to find a thread beside them.
constexpr size_t kLongTextBytes = size_t{64} << 10;
// What may wait, of all tenants: some texts of the longest.
constexpr size_t kMaxWaitingBytes = size_t{128} << 20;
constexpr int kMaxPageSize = 1000;

int NumTokens(const v1::DetokenizeStreamRequest& request) {
  int count = request.append().token_ids_size();
  for (const auto& other : request.others()) count += other.append().token_ids_size();
  return count;
}

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  call->Finish(ToGrpc(status));
  return call;
}

}  // namespace

TokenizerService::TokenizerService(Model model, const Tokenizer* tokenizer, ProgressWatch* progress)
    : model_(std::move(model)),
      tokenizer_(tokenizer),
      progress_(progress),
      chat_templates_(tokenizer == nullptr ? TokenizerConfig() : tokenizer->config()),
      work_({.max_running = 2,
             .max_long_begun = 1,
             .max_bytes = kMaxWaitingBytes,
             .progress = progress}) {}

grpc::ServerUnaryReactor* TokenizerService::Queue(
    grpc::CallbackServerContext* context, size_t num_bytes,
    std::function<absl::Status(const Checkpoint&)> work) {
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  const absl::Duration budget = WorkBudgetOf(*context);
  const absl::Status queued =
      work_.Add({.owner = WorkOwnerOf(*context),
                 .num_bytes = num_bytes,
                 .max_used = budget,
                 .is_long = num_bytes >= kLongTextBytes,
                 .run = [context, call, budget, work = std::move(work)](FairWork::Slice& slice) {
                   // gRPC cancels a call whose deadline has passed, too.
                   const auto goes_on = [&] { return !context->IsCancelled() && slice.wanted(); };
                   absl::Status status = absl::CancelledError("the caller left");
                   if (goes_on()) {
                     status = work([&] { return slice.Continue() && goes_on(); });
                   }
                   const absl::Duration used = slice.used();
                   if (used > budget) status = TooMuchWork(used, budget);
                   SetWork(used, *context);
                   call->Finish(ToGrpc(IfExhaustedTooLarge(std::move(status))));
                 }});
  if (!queued.ok()) call->Finish(ToGrpc(Annotate(queued, "the tokenizer")));
  return call;
}

grpc::ServerUnaryReactor* TokenizerService::AnswerAtOnce(
    grpc::CallbackServerContext* context, const char* name,
    const std::function<absl::Status()>& work) const {
  const ProgressWatch::Work watched(progress_, name);
  const absl::Duration begin = FairWork::SystemThreadTime();
  const absl::Status status = work();
  SetWork(FairWork::SystemThreadTime() - begin, *context);
  return Answer(context, status);
}

absl::Status TokenizerService::CheckCall(const grpc::CallbackServerContext& context) const {
  if (absl::Status expected = CheckExpectedTokenizer(context, model_.tokenizer_digest);
      !expected.ok()) {
    return expected;
  }
  if (tokenizer_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model ", model_.name,
                   " has no tokenizer: its folder lacks tokenizer.json, or another file that holds "
                   "one, so it takes and gives token ids only"));
}

absl::Status TokenizerService::DoTokenize(const v1::TokenizeRequest& request,
                                          v1::TokenizeResponse& response,
                                          const Checkpoint* checkpoint) const {
  EncodeOptions options;
  options.checkpoint = checkpoint;
  if (request.has_add_special_tokens()) options.add_special = request.add_special_tokens();
  if (request.has_parse_special_tokens()) options.parse_special = request.parse_special_tokens();
  options.offsets = request.return_offsets() && !request.count_only();
  options.replace_invalid = request.replace_invalid_utf8();
  options.max_tokens = static_cast<size_t>(std::max(request.max_tokens(), 0));
  if (request.has_second_text()) {
    const absl::StatusOr<PairEncoding> pair =
        tokenizer_->EncodePair(request.text(), request.second_text(), options);
    if (!pair.ok()) return pair.status();
    response.set_num_tokens(static_cast<int32_t>(pair->ids.size()));
    response.set_second_begin(static_cast<int32_t>(pair->second_begin));
    if (!request.count_only())
      response.mutable_token_ids()->Add(pair->ids.begin(), pair->ids.end());
    return absl::OkStatus();
  }
  const absl::StatusOr<Encoding> encoding = tokenizer_->Encode(request.text(), options);
  if (!encoding.ok()) return encoding.status();
  response.set_num_tokens(static_cast<int32_t>(encoding->ids.size()));
  if (request.count_only()) return absl::OkStatus();
  response.mutable_token_ids()->Add(encoding->ids.begin(), encoding->ids.end());
  for (const ByteRange& range : encoding->offsets) {
    response.add_begin_bytes(range.begin);
    response.add_end_bytes(range.end);
  }
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::Tokenize(grpc::CallbackServerContext* context,
                                                     const v1::TokenizeRequest* request,
                                                     v1::TokenizeResponse* response) {
  if (const absl::Status status = CheckCall(*context); !status.ok()) return Answer(context, status);
  if (request->text().size() <= kShortTextBytes) {
    return AnswerAtOnce(context, "tokenize",
                        [&] { return DoTokenize(*request, *response, nullptr); });
  }
  return Queue(context, request->text().size(),
               [this, request, response](const Checkpoint& checkpoint) {
                 return DoTokenize(*request, *response, &checkpoint);
               });
}

absl::Status TokenizerService::DoDetokenize(const v1::DetokenizeRequest& request,
                                            v1::DetokenizeResponse& response,
                                            const Checkpoint* checkpoint) const {
  absl::StatusOr<std::string> text =
      tokenizer_->Decode(request.token_ids(),
                         {.skip_special = request.skip_special_tokens(), .checkpoint = checkpoint});
  if (!text.ok()) return text.status();
  response.set_text(*std::move(text));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  if (const absl::Status status = CheckCall(*context); !status.ok()) return Answer(context, status);
  if (request->token_ids_size() <= kFewTokens) {
    return AnswerAtOnce(context, "detokenize",
                        [&] { return DoDetokenize(*request, *response, nullptr); });
  }
  return Queue(context, sizeof(int32_t) * static_cast<size_t>(request->token_ids_size()),
               [this, request, response](const Checkpoint& checkpoint) {
                 return DoDetokenize(*request, *response, &checkpoint);
               });
}

grpc::ServerBidiReactor<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>*
TokenizerService::DetokenizeStream(grpc::CallbackServerContext* context) {
  using Stream = ServerStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;
  const absl::Status valid = CheckCall(*context);
  std::shared_ptr<DetokenizeSession> session;
  if (valid.ok()) session = std::make_shared<DetokenizeSession>(*tokenizer_);
  Stream* stream =
      Stream::Start({.on_request =
                         [session, progress = progress_](
                             Stream& stream, const v1::DetokenizeStreamRequest& request) {
                           if (session == nullptr) return;
                           const ProgressWatch::Work work(progress, "text", NumTokens(request));
                           if (auto response = session->HandleAll(request))
                             stream.Send(*std::move(response));
                         },
                     .on_requests_end = [](Stream& stream) { stream.Close(absl::OkStatus()); }});
  if (!valid.ok()) stream->Close(valid);
  return stream;
}

absl::Status TokenizerService::DoApplyChatTemplate(const v1::ApplyChatTemplateRequest& request,
                                                   v1::ApplyChatTemplateResponse& response,
                                                   const Checkpoint& checkpoint) const {
  absl::StatusOr<nlohmann::ordered_json> variables = ChatContext(request);
  if (!variables.ok()) return variables.status();
  chat_templates_.AdaptHistory(request.template_name(), *variables);
  absl::StatusOr<jinja::Rendering> rendering =
      chat_templates_.Render(request.template_name(), *variables, LocalTimeNow(), &checkpoint);
  if (!rendering.ok()) return rendering.status();
  if (request.continue_final_message()) {
    const absl::Status status = EndInFinalMessage(*variables, *rendering);
    if (!status.ok()) return status;
  }
  if (request.tokenize()) {
    std::vector<ByteRange> untrusted;
    for (const jinja::TextRange& range : rendering->untrusted) {
      untrusted.push_back({static_cast<uint32_t>(range.begin), static_cast<uint32_t>(range.end)});
    }
    // The template writes what stands around the text itself.
    const absl::StatusOr<Encoding> encoding =
        tokenizer_->Encode(rendering->text, {.add_special = false,
                                             .parse_special = true,
                                             .untrusted = untrusted,
                                             .checkpoint = &checkpoint});
    if (!encoding.ok()) return encoding.status();
    response.mutable_token_ids()->Add(encoding->ids.begin(), encoding->ids.end());
  }
  response.set_text(std::move(rendering->text));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::ApplyChatTemplate(
    grpc::CallbackServerContext* context, const v1::ApplyChatTemplateRequest* request,
    v1::ApplyChatTemplateResponse* response) {
  absl::Status status = CheckCall(*context);
  if (status.ok() && chat_templates_.empty()) {
    status = absl::FailedPreconditionError(
        absl::StrCat("model ", model_.name, " has no chat template; send the prompt as text"));
  }
  const size_t most_bytes = EncodeOptions().max_bytes;
  if (status.ok() && request->ByteSizeLong() > most_bytes) {
    status = IfExhaustedTooLarge(absl::ResourceExhaustedError(absl::StrCat(
        "the conversation has ", request->ByteSizeLong(), " bytes; accepted: up to ", most_bytes)));
  }
  if (!status.ok()) return Answer(context, status);
  return Queue(context, request->ByteSizeLong(),
               [this, request, response](const Checkpoint& checkpoint) {
                 return DoApplyChatTemplate(*request, *response, checkpoint);
               });
}

absl::Status TokenizerService::DoGetVocabulary(const v1::GetVocabularyRequest& request,
                                               v1::GetVocabularyResponse& response) const {
  const TokenId first = request.first_token_id();
  if (first < 0 || first > tokenizer_->id_limit()) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_token_id is ", first, "; accepted: 0 to ", tokenizer_->id_limit()));
  }
  if (request.page_size() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", request.page_size(), "; accepted: 0 or more"));
  }
  const int page_size =
      request.page_size() == 0 ? kMaxPageSize : std::min(request.page_size(), kMaxPageSize);
  TokenId id = first;
  for (; id < tokenizer_->id_limit() && response.entries_size() < page_size; ++id) {
    if (!tokenizer_->HasToken(id)) continue;
    v1::VocabularyEntry& entry = *response.add_entries();
    entry.set_token_id(id);
    entry.set_text(tokenizer_->TokenBytes(id));
    entry.set_special(tokenizer_->IsSpecial(id));
  }
  response.set_next_token_id(id < tokenizer_->id_limit() ? id : 0);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::GetVocabulary(grpc::CallbackServerContext* context,
                                                          const v1::GetVocabularyRequest* request,
                                                          v1::GetVocabularyResponse* response) {
  absl::Status status = CheckCall(*context);
  if (status.ok()) status = DoGetVocabulary(*request, *response);
  return Answer(context, status);
}

grpc::ServerUnaryReactor* TokenizerService::GetInfo(grpc::CallbackServerContext* context,
                                                    const v1::GetTokenizerInfoRequest*,
                                                    v1::GetTokenizerInfoResponse* response) {
  response->set_model_name(model_.name);
  response->set_tokenizer_digest(model_.tokenizer_digest);
  response->set_has_tokenizer(tokenizer_ != nullptr);
  if (tokenizer_ != nullptr) {
    response->set_vocabulary_size(static_cast<int32_t>(tokenizer_->vocabulary_size()));
    response->set_max_text_bytes(EncodeOptions().max_bytes);
    response->set_has_chat_template(!tokenizer_->config().chat_templates.empty());
  }
  return Answer(context, absl::OkStatus());
}

}  // namespace sluice
