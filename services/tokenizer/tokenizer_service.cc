#include "services/tokenizer/tokenizer_service.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/server_stream.h"
#include "services/common/status.h"
#include "services/tokenizer/chat_context.h"
#include "services/tokenizer/chat_continuation.h"
#include "services/tokenizer/detokenize_session.h"

namespace sluice {
namespace {

constexpr size_t kLongTextBytes = size_t{64} << 10;
constexpr int kManyTokens = 16 << 10;
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
      long_text_thread_([this] {
        while (const auto work = long_texts_.Next()) (*work)();
      }) {}

TokenizerService::~TokenizerService() {
  long_texts_.Close();
  long_text_thread_.join();
}

void TokenizerService::DoLater(grpc::CallbackServerContext* context, grpc::ServerUnaryReactor* call,
                               std::function<absl::Status()> work) {
  long_texts_.Add([context, call, work = std::move(work)] {
    call->Finish(ToGrpc(context->IsCancelled() ? absl::CancelledError("the caller left") : work()));
  });
}

absl::Status TokenizerService::CheckTokenizer() const {
  if (tokenizer_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("model ", model_.name,
                   " has no tokenizer: its folder lacks tokenizer.json, or another file that holds "
                   "one, so it takes and gives token ids only"));
}

absl::Status TokenizerService::DoTokenize(const v1::TokenizeRequest& request,
                                          v1::TokenizeResponse& response) const {
  const ProgressWatch::Work work(progress_, "tokenize", 1 + request.text().size() / 1024);
  EncodeOptions options;
  if (request.has_add_special_tokens()) options.add_special = request.add_special_tokens();
  if (request.has_parse_special_tokens()) options.parse_special = request.parse_special_tokens();
  options.offsets = request.return_offsets() && !request.count_only();
  options.replace_invalid = request.replace_invalid_utf8();
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
  if (const absl::Status status = CheckTokenizer(); !status.ok()) return Answer(context, status);
  if (request->text().size() < kLongTextBytes)
    return Answer(context, DoTokenize(*request, *response));
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  DoLater(context, call, [this, request, response] { return DoTokenize(*request, *response); });
  return call;
}

absl::Status TokenizerService::DoDetokenize(const v1::DetokenizeRequest& request,
                                            v1::DetokenizeResponse& response) const {
  const ProgressWatch::Work work(progress_, "detokenize", 1 + request.token_ids_size() / 1024);
  absl::StatusOr<std::string> text =
      tokenizer_->Decode(request.token_ids(), {.skip_special = request.skip_special_tokens()});
  if (!text.ok()) return text.status();
  response.set_text(*std::move(text));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::Detokenize(grpc::CallbackServerContext* context,
                                                       const v1::DetokenizeRequest* request,
                                                       v1::DetokenizeResponse* response) {
  if (const absl::Status status = CheckTokenizer(); !status.ok()) return Answer(context, status);
  if (request->token_ids_size() < kManyTokens)
    return Answer(context, DoDetokenize(*request, *response));
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  DoLater(context, call, [this, request, response] { return DoDetokenize(*request, *response); });
  return call;
}

grpc::ServerBidiReactor<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>*
TokenizerService::DetokenizeStream(grpc::CallbackServerContext*) {
  using Stream = ServerStream<v1::DetokenizeStreamRequest, v1::DetokenizeStreamResponse>;
  std::shared_ptr<DetokenizeSession> session;
  if (tokenizer_ != nullptr) session = std::make_shared<DetokenizeSession>(*tokenizer_);
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
  if (tokenizer_ == nullptr) stream->Close(CheckTokenizer());
  return stream;
}

absl::Status TokenizerService::DoApplyChatTemplate(const v1::ApplyChatTemplateRequest& request,
                                                   v1::ApplyChatTemplateResponse& response) const {
  const ProgressWatch::Work work(progress_, "chat-template", 1 + request.ByteSizeLong() / 1024);
  absl::StatusOr<nlohmann::ordered_json> variables = ChatContext(request);
  if (!variables.ok()) return variables.status();
  chat_templates_.AdaptHistory(request.template_name(), *variables);
  absl::StatusOr<jinja::Rendering> rendering =
      chat_templates_.Render(request.template_name(), *variables, LocalTimeNow());
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
    const absl::StatusOr<Encoding> encoding = tokenizer_->Encode(
        rendering->text, {.add_special = false, .parse_special = true, .untrusted = untrusted});
    if (!encoding.ok()) return encoding.status();
    response.mutable_token_ids()->Add(encoding->ids.begin(), encoding->ids.end());
  }
  response.set_text(std::move(rendering->text));
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* TokenizerService::ApplyChatTemplate(
    grpc::CallbackServerContext* context, const v1::ApplyChatTemplateRequest* request,
    v1::ApplyChatTemplateResponse* response) {
  absl::Status status = CheckTokenizer();
  if (status.ok() && chat_templates_.empty()) {
    status = absl::FailedPreconditionError(
        absl::StrCat("model ", model_.name, " has no chat template; send the prompt as text"));
  }
  const size_t most_bytes = EncodeOptions().max_bytes;
  if (status.ok() && request->ByteSizeLong() > most_bytes) {
    status = absl::ResourceExhaustedError(absl::StrCat(
        "the conversation has ", request->ByteSizeLong(), " bytes; accepted: up to ", most_bytes));
  }
  if (!status.ok()) return Answer(context, status);
  if (request->ByteSizeLong() < kLongTextBytes) {
    return Answer(context, DoApplyChatTemplate(*request, *response));
  }
  grpc::ServerUnaryReactor* call = context->DefaultReactor();
  DoLater(context, call,
          [this, request, response] { return DoApplyChatTemplate(*request, *response); });
  return call;
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
  absl::Status status = CheckTokenizer();
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
