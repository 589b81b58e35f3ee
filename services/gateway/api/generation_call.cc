#include "services/gateway/api/generation_call.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

// Whether what the model goes on with, or begins with, is a thought.
bool BeginsInThought(const v1::Chat& chat, const OutputStyle& style) {
  if (!chat.continue_final_message() || chat.messages().empty()) return style.begins_in_thought;
  const std::string& content = chat.messages(chat.messages_size() - 1).content();
  if (absl::StripAsciiWhitespace(content).empty()) return style.begins_in_thought;
  const size_t begin = content.rfind("<think>");
  return begin != std::string::npos && content.find("</think>", begin) == std::string::npos;
}

}  // namespace

GenerationCall::GenerationCall(const ApiContext& context, std::shared_ptr<http::Exchange> exchange)
    : context_(context), call_(context, std::move(exchange)) {}

void GenerationCall::Start() {
  // First of all, because it says whether the caller is known: nothing is done for a stranger.
  backend().GetModel(call_.caller(), Then<v1::GetModelResponse>([this](v1::GetModelResponse model) {
                       model_ = std::move(model);
                       ReadBody();
                     }));
}

void GenerationCall::ReadBody() {
  call_.ReadBody(
      context_.body_reader,
      [this, self = shared_from_this()](const nlohmann::json& body) {
        absl::StatusOr<Needs> needs = Read(body);
        if (needs.ok()) needs_ = *std::move(needs);
        return needs.status();
      },
      [this, self = shared_from_this()](const absl::Status& status) {
        if (!status.ok()) return Fail(status);
        if (needs_.model.empty() || needs_.model == model_.name()) return FetchTokenTexts();
        FindAdapter();
      });
}

// Another model's name is that of one of its adapters, or unknown.
void GenerationCall::FindAdapter() {
  backend().ListAdapters(
      call_.caller(), Then<v1::ListAdaptersResponse>([this](const v1::ListAdaptersResponse& known) {
        const bool is_known =
            std::any_of(known.adapters().begin(), known.adapters().end(),
                        [this](const auto& adapter) { return adapter.name() == needs_.model; });
        if (!is_known) return Fail(UnknownModel(needs_.model));
        adapter_ = needs_.model;
        FetchTokenTexts();
      }));
}

void GenerationCall::FetchTokenTexts() {
  if (!needs_.token_texts) return FindOutputStyle();
  using Texts = std::shared_ptr<const TokenTexts>;
  context_.vocabulary.Get(call_.caller(), model_.name(), Then<Texts>([this](Texts texts) {
                            token_texts_ = std::move(texts);
                            FindOutputStyle();
                          }));
}

void GenerationCall::FindOutputStyle() {
  if (needs_.chat == nullptr) return TokenizeBadWord(0);
  context_.output_styles.Get(call_.caller(), model_.name(), needs_.chat->variables_json(),
                             [this, self = shared_from_this()](absl::StatusOr<OutputStyle> style) {
                               // Without tools, a text is a text in any style.
                               if (!style.ok() && has_tools()) return Fail(style.status());
                               output_style_ = style.value_or(OutputStyle());
                               ConstrainCalls();
                             });
}

void GenerationCall::ConstrainCalls() {
  if (needs_.tools != nullptr) {
    auto constraint = ToolConstraint(*needs_.tools, output_style_.tool_format);
    if (!constraint.ok()) return Fail(constraint.status());
    calls_constraint_ = *std::move(constraint);
  }
  TokenizeBadWord(0);
}

OutputSplitter GenerationCall::NewSplitter() const {
  if (must_call()) {
    const std::string only = OnlyTool(*needs_.tools);
    return only.empty() ? OutputSplitter(kRequiredFormat, /*begins_in_thought=*/false)
                        : OutputSplitter::OfArguments(only);
  }
  return OutputSplitter(StyleOfAnswer(),
                        needs_.tools == nullptr ? std::vector<OfferedTool>() : needs_.tools->tools);
}

OutputStyle GenerationCall::StyleOfAnswer() const {
  OutputStyle style = output_style_;
  if (!has_tools()) style.tool_format = ToolFormat::kNone;
  style.begins_in_thought = needs_.chat != nullptr && BeginsInThought(*needs_.chat, output_style_);
  return style;
}

// A word has other tokens at the beginning of a text than after a space: both are forbidden.
void GenerationCall::TokenizeBadWord(size_t index) {
  if (index == 2 * needs_.bad_words.size()) return Prepare();
  v1::TokenizeRequest request;
  request.set_text(absl::StrCat(index % 2 == 0 ? "" : " ", needs_.bad_words[index / 2]));
  request.set_add_special_tokens(false);
  backend().Tokenize(
      call_.caller(), std::move(request),
      Then<v1::TokenizeResponse>([this, index](const v1::TokenizeResponse& tokens) {
        std::vector<int32_t> ids(tokens.token_ids().begin(), tokens.token_ids().end());
        const bool known =
            std::find(bad_words_ids_.begin(), bad_words_ids_.end(), ids) != bad_words_ids_.end();
        if (!ids.empty() && !known) bad_words_ids_.push_back(std::move(ids));
        TokenizeBadWord(index + 1);
      }));
}

void GenerationCall::Generate(std::vector<v1::GenerateRequest> requests) {
  // Answers name what was asked for.
  if (!adapter_.empty()) model_.set_name(adapter_);
  for (v1::GenerateRequest& request : requests) {
    request.set_adapter(adapter_);
    if (request.request_id().empty()) request.set_request_id(call_.id());
    if (const std::string& scope = call_.caller().cache_scope; !scope.empty()) {
      request.set_cache_salt(absl::StrCat(scope, ":", request.cache_salt()));
    }
    // What the text must keep besides concerns answers that are no calls.
    if (calls_constraint_.has_value() && (must_call() || !request.has_constraint())) {
      *request.mutable_constraint() = *calls_constraint_;
    }
    if (needs_.chat != nullptr && !must_call()) {
      for (std::string& token : SpecialTokensOf(StyleOfAnswer())) {
        request.add_kept_special_tokens(std::move(token));
      }
    }
    for (const std::vector<int32_t>& ids : bad_words_ids_) {
      request.mutable_sampling()->add_bad_words_ids()->mutable_token_ids()->Assign(ids.begin(),
                                                                                   ids.end());
    }
  }
  GenerationGroup::Start(
      backend(), call_.caller(), std::move(requests), call_.exchange(),
      {.on_started = [self = shared_from_this()](
                         int prompt,
                         const v1::Started& started) { self->OnStarted(prompt, started); },
       .on_chunk = [self = shared_from_this()](
                       int prompt, const v1::Chunk& chunk) { self->OnChunk(prompt, chunk); },
       .on_finished = [self = shared_from_this()](
                          const std::vector<v1::Finished>& all) { self->OnFinished(all); },
       .on_failed = [self = shared_from_this()](const absl::Status& s) { self->Fail(s); }});
}

}  // namespace sluice::gateway
