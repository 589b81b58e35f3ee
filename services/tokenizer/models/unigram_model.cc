#include "services/tokenizer/models/unigram_model.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "services/tokenizer/models/word_cache.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

constexpr double kUnknownPenalty = 10;
// Memory that a longer piece took is given back.
constexpr size_t kMaxKeptBytes = 1 << 16;

// The best way to the end of a byte.
struct Step {
  static constexpr uint32_t kNone = UINT32_MAX;
  double score = 0;
  uint32_t begin = kNone;  // of the last token
  TokenId id = kNoToken;
};

}  // namespace

struct UnigramModel::Scratch : ModelScratch {
  WordCache cache;
  std::vector<Step> best;  // by where they end
  std::vector<ByteRange> path;
};

UnigramModel::UnigramModel(const Vocabulary& vocabulary, std::vector<double> scores,
                           UnigramOptions options)
    : vocabulary_(vocabulary), options_(std::move(options)), scores_(std::move(scores)) {
  CompleteScores();
  std::vector<PrefixTrie::Entry> entries;
  entries.reserve(scores_.size());
  for (TokenId id = 0; id < vocabulary.id_limit(); ++id) {
    if (!vocabulary.Has(id) || options_.unused.contains(id)) continue;
    entries.emplace_back(vocabulary.Text(id), id);
  }
  trie_ = PrefixTrie(std::move(entries));
  for (int byte = 0; byte < 256; ++byte) {
    bytes_[byte] = vocabulary.Find(absl::StrFormat("<0x%02X>", byte));
  }
}

void UnigramModel::CompleteScores() {
  double min_score = std::numeric_limits<double>::infinity();
  double max_score = -std::numeric_limits<double>::infinity();
  for (TokenId id = 0; id < static_cast<TokenId>(scores_.size()); ++id) {
    const bool is_normal = !options_.unused.contains(id) && !options_.user_defined.contains(id);
    if (options_.single_precision && !is_normal) continue;
    min_score = std::min(min_score, scores_[id]);
    max_score = std::max(max_score, scores_[id]);
  }
  unk_score_ = min_score - kUnknownPenalty;
  // More than any other tokens for the same text together.
  for (const TokenId id : options_.user_defined) {
    scores_[id] = static_cast<double>(vocabulary_.Text(id).size()) * max_score - 0.1;
  }
}

std::unique_ptr<ModelScratch> UnigramModel::NewScratch() const {
  return std::make_unique<Scratch>();
}

void UnigramModel::Tokenize(const Piece& piece, ModelScratch& model_scratch, Encoding* out) const {
  auto& scratch = static_cast<Scratch&>(model_scratch);
  const bool is_cached = piece.map == nullptr;
  if (is_cached) {
    const absl::Span<const TokenId> known = scratch.cache.Get(piece.text);
    if (!known.empty()) {
      out->ids.insert(out->ids.end(), known.begin(), known.end());
      return;
    }
  }
  const size_t num_before = out->ids.size();
  (void)SpellOut(piece, [&](const Piece& spelled) {
    TokenizeText(spelled, scratch, out);
    return absl::OkStatus();
  });
  if (is_cached && scratch.Pass(0))
    scratch.cache.Put(piece.text, absl::MakeConstSpan(out->ids).subspan(num_before));
}

void UnigramModel::TokenizeText(const Piece& piece, Scratch& scratch, Encoding* out) const {
  if (!FindBestPath(piece.text, scratch)) return;
  std::vector<ByteRange>& path = scratch.path;
  path.clear();
  bool after_unknown = false;
  for (auto end = static_cast<uint32_t>(piece.text.size()); end > 0;) {
    const Step& step = scratch.best[end];
    const bool is_unknown = step.id == options_.unk_id;
    // Neighbouring unknown characters become one.
    if (is_unknown && after_unknown) {
      path.back().begin = step.begin;
    } else {
      path.push_back({step.begin, end});
    }
    after_unknown = is_unknown;
    end = step.begin;
  }
  for (auto part = path.rbegin(); part != path.rend() && scratch.Pass(1); ++part) {
    Append(piece, part->begin, part->end, out);
  }
  if (piece.text.size() > kMaxKeptBytes) {
    scratch.best = {};
    scratch.path = {};
  }
}

bool UnigramModel::FindBestPath(std::string_view text, Scratch& scratch) const {
  constexpr size_t kStepsAtATime = 4096;
  std::vector<Step>& best = scratch.best;
  best.clear();
  best.reserve(text.size() + 1);
  while (best.size() < text.size() + 1) {
    const size_t num_added = std::min(text.size() + 1 - best.size(), kStepsAtATime);
    best.resize(best.size() + num_added);
    if (!scratch.Pass(num_added / 16)) return false;
  }
  const auto offer = [&](size_t begin, size_t end, double score, TokenId id) {
    if (options_.single_precision) score = static_cast<float>(score);
    Step& step = best[end];
    if (step.begin != Step::kNone && !(score > step.score)) return;
    step = {score, static_cast<uint32_t>(begin), id};
  };
  for (size_t begin = 0; begin < text.size();) {
    const double score = best[begin].score;
    const uint32_t char_length = ReadUtf8(text, begin).length;
    bool has_char = false;
    trie_.Prefixes(text.substr(begin), [&](size_t length, TokenId id) {
      offer(begin, begin + length, scores_[id] + score, id);
      has_char |= length == char_length;
    });
    if (!has_char) offer(begin, begin + char_length, unk_score_ + score, options_.unk_id);
    begin += char_length;
    if (!scratch.Pass(char_length)) return false;
  }
  return true;
}

void UnigramModel::Append(const Piece& piece, size_t begin, size_t end, Encoding* out) const {
  TokenId id = vocabulary_.Find(piece.text.substr(begin, end - begin));
  if (options_.unused.contains(id)) id = kNoToken;
  if (id == kNoToken) {
    if (options_.byte_fallback && AppendAsBytes(piece, begin, end, out)) return;
    id = options_.unk_id;
  }
  if (id == kNoToken) return;
  out->ids.push_back(id);
  if (piece.map != nullptr) out->offsets.push_back(piece.Source(begin, end));
}

bool UnigramModel::AppendAsBytes(const Piece& piece, size_t begin, size_t end,
                                 Encoding* out) const {
  const std::string_view text = piece.text.substr(begin, end - begin);
  for (const char byte : text) {
    if (bytes_[static_cast<uint8_t>(byte)] == kNoToken) return false;
  }
  for (size_t i = 0; i < text.size(); ++i) {
    out->ids.push_back(bytes_[static_cast<uint8_t>(text[i])]);
    // Each byte covers the whole characters that it is a part of.
    if (piece.map != nullptr) out->offsets.push_back(piece.Source(begin, end));
  }
  return true;
}

}  // namespace sluice
