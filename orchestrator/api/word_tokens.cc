#include "orchestrator/api/word_tokens.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "services/common/status.h"

namespace sluice {
namespace {

// One text after the other goes to the tokenizer.
class Walk : public std::enable_shared_from_this<Walk> {
 public:
  using Callback = std::function<void(absl::StatusOr<v1::SamplingOptions>)>;

  Walk(const v1::GenerateRequest& request, TokenizerClient* tokenizer, RequestContext context,
       Callback callback)
      : tokenizer_(tokenizer),
        context_(std::move(context)),
        callback_(std::move(callback)),
        sampling_(request.sampling()) {
    // A word has other tokens at the beginning of a text than after a space.
    for (const std::string& word : request.bad_words()) {
      texts_.push_back(word);
      texts_.push_back(absl::StrCat(" ", word));
    }
    num_bad_words_ = texts_.size();
    for (const std::string& breaker : request.dry_breakers()) {
      texts_.push_back(absl::StrCat("a", breaker));
    }
  }

  void Next() {
    if (next_ == texts_.size()) return callback_(std::move(sampling_));
    v1::TokenizeRequest request;
    request.set_text(texts_[next_]);
    request.set_add_special_tokens(false);
    tokenizer_->Tokenize(
        std::move(request), context_,
        [self = shared_from_this()](const absl::StatusOr<v1::TokenizeResponse>& tokens) {
          self->OnTokens(tokens);
        });
  }

 private:
  void OnTokens(const absl::StatusOr<v1::TokenizeResponse>& tokens) {
    const bool is_bad_word = next_++ < num_bad_words_;
    if (!tokens.ok()) {
      return callback_(Annotate(tokens.status(), is_bad_word ? "bad_words" : "dry_breakers"));
    }
    if (is_bad_word) {
      AddBadWord(*tokens);
    } else if (!tokens->token_ids().empty()) {
      AddBreaker(*tokens->token_ids().rbegin());
    }
    Next();
  }

  void AddBadWord(const v1::TokenizeResponse& tokens) {
    const auto& words = sampling_.bad_words_ids();
    const bool is_known =
        std::any_of(words.begin(), words.end(), [&](const v1::TokenSequence& word) {
          return std::equal(word.token_ids().begin(), word.token_ids().end(),
                            tokens.token_ids().begin(), tokens.token_ids().end());
        });
    if (tokens.token_ids().empty() || is_known) return;
    *sampling_.add_bad_words_ids()->mutable_token_ids() = tokens.token_ids();
  }

  void AddBreaker(int32_t token) {
    const auto& known = sampling_.dry_breaker_token_ids();
    if (std::find(known.begin(), known.end(), token) == known.end()) {
      sampling_.add_dry_breaker_token_ids(token);
    }
  }

  TokenizerClient* const tokenizer_;
  const RequestContext context_;
  const Callback callback_;
  v1::SamplingOptions sampling_;
  std::vector<std::string> texts_;
  size_t num_bad_words_ = 0;
  size_t next_ = 0;
};

}  // namespace

void ResolveWords(const v1::GenerateRequest& request, TokenizerClient* tokenizer,
                  const RequestContext& context,
                  std::function<void(absl::StatusOr<v1::SamplingOptions>)> callback) {
  std::make_shared<Walk>(request, tokenizer, context, std::move(callback))->Next();
}

}  // namespace sluice
