// What the requests of each tenant have written lately, so that one's text can be drafted from
// another's. Nothing passes between tenants, or between requests of different cache_salt: whether a
// draft was right shows in the time that a token takes. Bounded: the last kMostTexts domains, the
// last tokens of each.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "orchestrator/drafts/drafter.h"
#include "orchestrator/drafts/ngram_index.h"

namespace sluice {

// The text of one domain.
class SharedText {
 public:
  // Appends the end of a sequence's tokens.
  void Add(absl::Span<const TokenId> tokens);
  // As Drafter::Propose.
  void Propose(absl::Span<const TokenId> tokens, int32_t most,
               std::vector<DraftToken>& draft) const;

 private:
  std::vector<TokenId> text_;  // sequences, each ended by kSeparator
  NgramIndex index_;
};

// Proposes from it.
class SharedDrafter final : public Drafter {
 public:
  explicit SharedDrafter(std::shared_ptr<const SharedText> text) : text_(std::move(text)) {}

  void Learn(absl::Span<const TokenId>) override {}
  void Propose(absl::Span<const TokenId> tokens, int32_t most,
               std::vector<DraftToken>& draft) override {
    text_->Propose(tokens, most, draft);
  }

 private:
  const std::shared_ptr<const SharedText> text_;
};

class SharedNgrams {
 public:
  static constexpr size_t kMostTexts = 64;

  // That of a tenant and salt; made where there is none, in place of the one unused longest.
  std::shared_ptr<SharedText> TextOf(const std::string& tenant, const std::string& salt);

 private:
  using Key = std::pair<std::string, std::string>;
  using Texts = std::list<std::pair<Key, std::shared_ptr<SharedText>>>;

  Texts texts_;  // the latest used first
  absl::flat_hash_map<Key, Texts::iterator> by_key_;
};

}  // namespace sluice
