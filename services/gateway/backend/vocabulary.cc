#include "services/gateway/backend/vocabulary.h"

#include <utility>

namespace sluice::gateway {

struct Vocabulary::Fetch {
  Caller caller;
  std::string model;
  Callback done;
  TokenTexts texts;
  int32_t next = 0;
};

void Vocabulary::Get(const Caller& caller, const std::string& model, Callback done) {
  std::shared_ptr<const TokenTexts> known;
  {
    absl::MutexLock lock(&mutex_);
    if (model_ == model) known = texts_;
  }
  if (known != nullptr) return done(std::move(known));
  FetchPage(std::make_shared<Fetch>(Fetch{caller, model, std::move(done)}));
}

void Vocabulary::FetchPage(const std::shared_ptr<Fetch>& fetch) {
  v1::GetVocabularyRequest request;
  request.set_first_token_id(fetch->next);
  backend_.GetVocabulary(
      fetch->caller, request, [this, fetch](absl::StatusOr<v1::GetVocabularyResponse> page) {
        if (!page.ok()) return fetch->done(page.status());
        for (v1::VocabularyEntry& entry : *page->mutable_entries()) {
          const auto id = static_cast<size_t>(entry.token_id());
          if (id >= fetch->texts.size()) fetch->texts.resize(id + 1);
          fetch->texts[id] = std::move(*entry.mutable_text());
        }
        // Pages only go up, whatever a server says.
        if (page->next_token_id() > fetch->next) {
          fetch->next = page->next_token_id();
          return FetchPage(fetch);
        }
        const auto texts = std::make_shared<const TokenTexts>(std::move(fetch->texts));
        {
          absl::MutexLock lock(&mutex_);
          model_ = fetch->model;
          texts_ = texts;
        }
        fetch->done(texts);
      });
}

}  // namespace sluice::gateway
