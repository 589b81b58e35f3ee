#include "orchestrator/api/prompt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "orchestrator/api/request_check.h"

namespace sluice {
namespace {

// What the texts of an encoder-decoder begin with.
std::vector<int32_t> TextBegin(const SourceSpec& source) {
  std::vector<int32_t> tokens = {source.start_token_id};
  if (source.forced_bos_token_id.has_value()) tokens.push_back(*source.forced_bos_token_id);
  return tokens;
}

}  // namespace

void PromptResolver::Resolve(const v1::GenerateRequest& request, const RequestContext& context,
                             Callback callback) const {
  if (!model_->source.has_value()) return FromPrompt(request, context, std::move(callback));
  if (request.source_case() != v1::GenerateRequest::SOURCE_NOT_SET) {
    return FromSource(request, context, std::move(callback));
  }
  FromPrompt(request, context,
             [this, callback = std::move(callback)](absl::StatusOr<ResolvedPrompt> source) {
               callback(source.ok() ? Joined(*std::move(source), TextBegin(*model_->source))
                                    : std::move(source));
             });
}

absl::StatusOr<ResolvedPrompt> PromptResolver::Joined(ResolvedPrompt source,
                                                      std::vector<int32_t> text) const {
  const auto positions = static_cast<int32_t>(source.tokens.size());
  if (absl::Status fits = CheckSourceLength(positions, *model_); !fits.ok()) return fits;
  source.source_positions = positions;
  source.tokens.resize(FilledSource(positions), source.tokens.back());
  source.tokens.insert(source.tokens.end(), text.begin(), text.end());
  source.second_begin = static_cast<int32_t>(source.tokens.size());
  return source;
}

template <class Request>
void PromptResolver::FromSource(const Request& request, const RequestContext& context,
                                Callback callback) const {
  Callback with_text;
  if (request.has_token_ids()) {
    const absl::Status status =
        CheckTokenIds(request.token_ids().token_ids(), *model_, "token_ids");
    if (!status.ok()) return callback(status);
    std::vector<int32_t> text(request.token_ids().token_ids().begin(),
                              request.token_ids().token_ids().end());
    with_text = [this, text = std::move(text),
                 callback = std::move(callback)](absl::StatusOr<ResolvedPrompt> source) {
      callback(source.ok() ? Joined(*std::move(source), text) : std::move(source));
    };
  } else if (request.has_text()) {
    v1::TokenizeRequest text;
    text.set_text(request.text());
    text.set_add_special_tokens(false);
    with_text = [this, text = std::move(text), context,
                 callback = std::move(callback)](absl::StatusOr<ResolvedPrompt> source) {
      if (!source.ok()) return callback(source.status());
      FromRequest(
          text, context,
          [this, source = *std::move(source), callback](absl::StatusOr<ResolvedPrompt> rest) {
            if (!rest.ok()) return callback(rest.status());
            std::vector<int32_t> tokens = TextBegin(*model_->source);
            tokens.insert(tokens.end(), rest->tokens.begin(), rest->tokens.end());
            callback(Joined(source, std::move(tokens)));
          });
    };
  } else {
    with_text = [this, callback = std::move(callback)](absl::StatusOr<ResolvedPrompt> source) {
      callback(source.ok() ? Joined(*std::move(source), TextBegin(*model_->source))
                           : std::move(source));
    };
  }
  if (request.has_source_text()) {
    return FromText(request.source_text(), context, std::move(with_text));
  }
  FromTokens(request.source_token_ids(), context.deadline, std::move(with_text));
}

void PromptResolver::FromPrompt(const v1::GenerateRequest& request, const RequestContext& context,
                                Callback callback) const {
  if (request.has_token_ids()) {
    return FromTokens(request.token_ids(), context.deadline, std::move(callback));
  }
  if (request.has_chat()) return FromChat(request.chat(), context, std::move(callback));
  FromText(request.text(), context, std::move(callback));
}

void PromptResolver::Resolve(const v1::ScoreInput& input, const RequestContext& context,
                             Callback callback) const {
  if (model_->source.has_value()) return FromSource(input, context, std::move(callback));
  if (input.has_token_ids()) {
    return FromTokens(input.token_ids(), context.deadline, std::move(callback));
  }
  FromText(input.text(), context, std::move(callback));
}

void PromptResolver::Resolve(const v1::EmbedInput& input, const std::string& prompt,
                             int32_t max_tokens, const RequestContext& context,
                             Callback callback) const {
  if (input.has_token_ids()) {
    v1::TokenIds ids = input.token_ids();
    if (max_tokens > 0 && ids.token_ids_size() > max_tokens) {
      ids.mutable_token_ids()->Truncate(max_tokens);
    }
    return FromTokens(ids, context.deadline, std::move(callback));
  }
  v1::TokenizeRequest request;
  request.set_max_tokens(max_tokens);
  request.set_text(prompt + (input.has_pair() ? input.pair().first() : input.text()));
  if (input.has_pair()) request.set_second_text(input.pair().second());
  FromRequest(std::move(request), context, std::move(callback));
}

void PromptResolver::FromTokens(const v1::TokenIds& tokens, SteadyTime deadline,
                                Callback callback) const {
  const absl::Status status = CheckTokenIds(tokens.token_ids(), *model_, "token_ids");
  if (!status.ok()) return callback(status);
  ResolvedPrompt prompt;
  prompt.tokens.assign(tokens.token_ids().begin(), tokens.token_ids().end());
  prompt.second_begin = tokens.token_ids_size();
  watch_->Get(deadline, [prompt = std::move(prompt), callback = std::move(callback)](
                            absl::StatusOr<v1::GetTokenizerInfoResponse> info) mutable {
    if (!info.ok()) return callback(info.status());
    prompt.has_tokenizer = info->has_tokenizer();
    callback(std::move(prompt));
  });
}

// A text may be long: it is held once while the tokenizer is waited for.
void PromptResolver::FromText(const std::string& text, const RequestContext& context,
                              Callback callback) const {
  v1::TokenizeRequest request;
  request.set_text(text);
  FromRequest(std::move(request), context, std::move(callback));
}

void PromptResolver::FromRequest(v1::TokenizeRequest given, const RequestContext& context,
                                 Callback callback) const {
  const auto request = std::make_shared<v1::TokenizeRequest>(std::move(given));
  OnceTokenizerAnswers(context.deadline, std::move(callback), [=, this](Callback callback) {
    tokenizer_->Tokenize(std::move(*request), context,
                         [this, callback = std::move(callback)](
                             const absl::StatusOr<v1::TokenizeResponse>& response) {
                           if (!response.ok()) return callback(response.status());
                           absl::StatusOr<ResolvedPrompt> prompt = Checked(
                               {response->token_ids().begin(), response->token_ids().end()});
                           if (prompt.ok() && response->second_begin() > 0) {
                             prompt->second_begin = response->second_begin();
                           }
                           callback(std::move(prompt));
                         });
  });
}

void PromptResolver::FromChat(const v1::Chat& chat, const RequestContext& context,
                              Callback callback) const {
  const auto shared = std::make_shared<v1::ApplyChatTemplateRequest>();
  v1::ApplyChatTemplateRequest& request = *shared;
  *request.mutable_messages() = chat.messages();
  request.set_tools_json(chat.tools_json());
  request.set_template_name(chat.template_name());
  request.set_variables_json(chat.variables_json());
  if (chat.has_add_generation_prompt()) {
    request.set_add_generation_prompt(chat.add_generation_prompt());
  }
  request.set_continue_final_message(chat.continue_final_message());
  request.set_tokenize(true);
  OnceTokenizerAnswers(context.deadline, std::move(callback), [=, this](Callback callback) {
    tokenizer_->ApplyChatTemplate(std::move(*shared), context,
                                  Tokens<v1::ApplyChatTemplateResponse>(std::move(callback)));
  });
}

void PromptResolver::OnceTokenizerAnswers(SteadyTime deadline, Callback callback,
                                          std::function<void(Callback)> then) const {
  watch_->Get(deadline, [callback = std::move(callback), then = std::move(then)](
                            const absl::StatusOr<v1::GetTokenizerInfoResponse>& info) {
    if (!info.ok()) return callback(info.status());
    then(callback);
  });
}

template <class Response>
TokenizerClient::Callback<Response> PromptResolver::Tokens(Callback callback) const {
  return [this, callback = std::move(callback)](const absl::StatusOr<Response>& response) {
    if (!response.ok()) return callback(response.status());
    callback(Checked({response->token_ids().begin(), response->token_ids().end()}));
  };
}

absl::StatusOr<ResolvedPrompt> PromptResolver::Checked(std::vector<int32_t> tokens) const {
  if (tokens.empty()) return absl::InvalidArgumentError("the prompt has no tokens");
  for (int32_t token : tokens) {
    if (token < 0 || token >= model_->vocabulary_size) {
      return absl::FailedPreconditionError(
          absl::StrCat("the tokenizer made token ", token, ", but the model's vocabulary has ",
                       model_->vocabulary_size, ": they do not belong together"));
    }
  }
  const auto count = static_cast<int32_t>(tokens.size());
  return ResolvedPrompt{std::move(tokens), true, count};
}

}  // namespace sluice
