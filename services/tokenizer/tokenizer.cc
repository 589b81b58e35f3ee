#include "services/tokenizer/tokenizer.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "services/tokenizer/incremental_decoder.h"
#include "services/tokenizer/repaired_text.h"
#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {

// One text on its way to ids.
class Tokenizer::EncodeRun {
 public:
  EncodeRun(const Tokenizer& tokenizer, std::string_view text, const EncodeOptions& options,
            Scratch& scratch, Pace& pace, Encoding* out)
      : tokenizer_(tokenizer),
        text_(text),
        wants_offsets_(options.offsets || (!options.untrusted.empty() &&
                                           !tokenizer.added_.normalized_finder().empty())),
        untrusted_(options.untrusted),
        finding_{.parse_special =
                     options.parse_special.value_or(tokenizer.parses_special_by_default_)},
        scratch_(scratch),
        pace_(pace),
        out_(*out) {}

  absl::Status Run() {
    std::optional<SourceMap> map;
    if (wants_offsets_) map.emplace(text_, 0);
    const Piece whole{.text = text_, .map = map.has_value() ? &*map : nullptr};
    const std::function<bool(size_t, size_t)> is_trusted = [this](size_t begin, size_t end) {
      return IsTrusted(begin, end);
    };
    AddedTokenFinder::Options finding = finding_;
    finding.pace = &pace_;
    if (!untrusted_.empty()) finding.may_be_special = &is_trusted;
    const auto encode = [&](const AddedTokenFinder::Segment& segment) {
      if (segment.token == nullptr) return EncodeRaw(segment.begin, segment.end);
      AddToken(*segment.token, whole, segment);
      return absl::OkStatus();
    };
    return tokenizer_.added_.raw_finder().Split(text_, finding, encode);
  }

 private:
  // Bytes [begin, end) of the original text.
  absl::Status EncodeRaw(size_t begin, size_t end) {
    const AddedTokenFinder& finder = tokenizer_.added_.normalized_finder();
    std::optional<SourceMap> map;
    if (wants_offsets_) map.emplace(text_, begin);
    MappedText text(text_.substr(begin, end - begin), std::move(map), begin == 0, &pace_);
    if (tokenizer_.normalizer_ != nullptr) tokenizer_.normalizer_->Normalize(&text);
    if (pace_.stopped()) return pace_.status();
    const Piece whole{
        .text = text.text(), .map = text.map(), .at_begin = text.at_begin(), .pace = &pace_};
    if (finder.empty()) return EncodeNormalized(whole);
    const std::function<bool(size_t, size_t)> is_trusted = [&](size_t from, size_t to) {
      const ByteRange source = whole.Source(from, to);
      return IsTrusted(source.begin, source.end);
    };
    AddedTokenFinder::Options finding = finding_;
    finding.pace = &pace_;
    if (!untrusted_.empty()) finding.may_be_special = &is_trusted;
    return finder.Split(text.text(), finding, [&](const AddedTokenFinder::Segment& segment) {
      if (segment.token == nullptr) return EncodeNormalized(whole.Part(segment.begin, segment.end));
      AddToken(*segment.token, whole, segment);
      return absl::OkStatus();
    });
  }

  // Whether no part of bytes [begin, end) of the original text is untrusted.
  bool IsTrusted(size_t begin, size_t end) const {
    const auto* range =
        std::upper_bound(untrusted_.begin(), untrusted_.end(), begin,
                         [](size_t at, const ByteRange& candidate) { return at < candidate.end; });
    return range == untrusted_.end() || range->begin >= end;
  }

  absl::Status EncodeNormalized(const Piece& piece) {
    const auto tokenize = [&](const Piece& part) {
      if (pace_.Pass(1 + part.text.size() / 2)) {
        tokenizer_.model_->Tokenize(part, *scratch_.model, &out_);
      }
      return pace_.status();
    };
    if (piece.text.empty()) return absl::OkStatus();
    if (tokenizer_.pre_tokenizer_ == nullptr) return tokenize(piece);
    return tokenizer_.pre_tokenizer_->Split(piece, scratch_.regex, tokenize);
  }

  void AddToken(const AddedToken& token, const Piece& whole,
                const AddedTokenFinder::Segment& segment) {
    out_.ids.push_back(token.id);
    if (wants_offsets_) out_.offsets.push_back(whole.Source(segment.begin, segment.end));
  }

  const Tokenizer& tokenizer_;
  const std::string_view text_;
  const bool wants_offsets_;  // also to know where normalized text is from
  const absl::Span<const ByteRange> untrusted_;
  const AddedTokenFinder::Options finding_;
  Scratch& scratch_;
  Pace& pace_;
  Encoding& out_;
};

absl::StatusOr<Encoding> Tokenizer::Encode(std::string_view text,
                                           const EncodeOptions& options) const {
  if (text.size() > options.max_bytes) {
    return absl::ResourceExhaustedError(
        StrCat("the text has ", text.size(), " bytes; accepted: at most ", options.max_bytes));
  }
  const size_t invalid = FirstInvalidUtf8(text);
  if (invalid == text.npos) return EncodeUtf8(text, options);
  if (!options.replace_invalid) {
    return absl::InvalidArgumentError(
        StrCat("the text is not UTF-8 at byte ", invalid, "; accepted: valid UTF-8"));
  }
  const RepairedText repaired(text);
  absl::StatusOr<Encoding> encoding = EncodeUtf8(repaired.text(), options);
  if (encoding.ok()) repaired.RestoreOffsets(&encoding->offsets);
  return encoding;
}

absl::StatusOr<std::vector<Encoding>> Tokenizer::EncodeBatch(
    absl::Span<const std::string_view> texts, const EncodeOptions& options) const {
  std::vector<Encoding> encodings;
  encodings.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    absl::StatusOr<Encoding> encoding = Encode(texts[i], options);
    if (!encoding.ok()) {
      return absl::Status(encoding.status().code(),
                          StrCat("texts[", i, "]: ", encoding.status().message()));
    }
    encodings.push_back(*std::move(encoding));
  }
  return encodings;
}

size_t Tokenizer::NumAdded(bool add_special, bool is_pair) const {
  if (post_processor_ == nullptr) return 0;
  Encoding none;
  if (is_pair) {
    post_processor_->JoinPair(add_special, {}, &none.ids);
  } else {
    const auto token_text = [](TokenId, ByteRange) { return std::string_view(); };
    post_processor_->Process({.text = "", .add_special = add_special, .token_text = token_text},
                             &none);
  }
  return none.ids.size();
}

absl::StatusOr<PairEncoding> Tokenizer::EncodePair(std::string_view first, std::string_view second,
                                                   const EncodeOptions& options) const {
  std::vector<TokenId> texts[2];
  for (const int i : {0, 1}) {
    EncodeOptions bare = options;
    bare.offsets = false;
    const std::string_view text = i == 0 ? first : second;
    if (text.size() > options.max_bytes) {
      return absl::ResourceExhaustedError(
          StrCat("the text has ", text.size(), " bytes; accepted: at most ", options.max_bytes));
    }
    if (const size_t invalid = FirstInvalidUtf8(text); invalid != text.npos) {
      return absl::InvalidArgumentError(
          StrCat("the text is not UTF-8 at byte ", invalid, "; accepted: valid UTF-8"));
    }
    absl::StatusOr<Encoding> encoding = EncodeBare(text, bare);
    if (!encoding.ok()) return encoding.status();
    texts[i] = std::move(encoding->ids);
  }
  if (options.max_tokens > 0) {
    const size_t added = NumAdded(options.add_special, /*is_pair=*/true);
    const size_t most = options.max_tokens > added ? options.max_tokens - added : 0;
    while (texts[0].size() + texts[1].size() > most) {
      texts[texts[0].size() > texts[1].size() ? 0 : 1].pop_back();
    }
  }
  PairEncoding pair{.ids = std::move(texts[0])};
  if (post_processor_ != nullptr) {
    pair.second_begin = post_processor_->JoinPair(options.add_special, texts[1], &pair.ids);
  } else {
    pair.second_begin = pair.ids.size();
    pair.ids.insert(pair.ids.end(), texts[1].begin(), texts[1].end());
  }
  return pair;
}

absl::StatusOr<Encoding> Tokenizer::EncodeBare(std::string_view text,
                                               const EncodeOptions& options) const {
  const auto scratch = scratch_pool_.Borrow([&] {
    auto made = std::make_unique<Scratch>();
    made->model = model_->NewScratch();
    return made;
  });
  Pace pace(options.checkpoint);
  (*scratch).model->set_pace(&pace);
  Encoding encoding;
  const absl::Status status = EncodeRun(*this, text, options, *scratch, pace, &encoding).Run();
  (*scratch).model->set_pace(nullptr);
  // What was given up in the middle is not gone on with.
  if (pace.stopped()) (*scratch).model = model_->NewScratch();
  if (!status.ok()) return status;
  if (!options.offsets) encoding.offsets.clear();
  return encoding;
}

absl::StatusOr<Encoding> Tokenizer::EncodeUtf8(std::string_view text,
                                               const EncodeOptions& options) const {
  absl::StatusOr<Encoding> bare = EncodeBare(text, options);
  if (!bare.ok()) return bare.status();
  Encoding& encoding = *bare;
  if (options.max_tokens > 0) {
    const size_t added = NumAdded(options.add_special, /*is_pair=*/false);
    const size_t most = options.max_tokens > added ? options.max_tokens - added : 0;
    encoding.ids.resize(std::min(encoding.ids.size(), most));
    encoding.offsets.resize(std::min(encoding.offsets.size(), most));
  }
  if (post_processor_ != nullptr) {
    const auto token_text = [&](TokenId id, ByteRange range) {
      if (added_.entries().contains(id)) return text.substr(range.begin, range.end - range.begin);
      return HasToken(id) ? TokenText(id) : std::string_view();
    };
    post_processor_->Process({.text = text,
                              .add_special = options.add_special,
                              .has_offsets = options.offsets,
                              .token_text = token_text},
                             &encoding);
  }
  return bare;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const TokenId> ids,
                                              const DecodeOptions& options) const {
  constexpr size_t kPiece = 4096;
  if (absl::Status status = CheckIds(ids); !status.ok() && !options.skip_unknown) return status;
  IncrementalDecoder decoder(*this, options);
  Pace pace(options.checkpoint);
  std::string text;
  while (!ids.empty()) {
    const absl::StatusOr<std::string> piece = decoder.Append(ids.subspan(0, kPiece));
    if (!piece.ok()) return piece.status();
    text += *piece;
    ids.remove_prefix(std::min(kPiece, ids.size()));
    if (!pace.Pass(kPiece)) return pace.status();
  }
  return text + decoder.Finish();
}

absl::Status Tokenizer::CheckIds(absl::Span<const TokenId> ids) const {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (HasToken(ids[i])) continue;
    return absl::InvalidArgumentError(StrCat("token id ", ids[i], " at position ", i,
                                             " is outside the vocabulary; accepted: ids of its ",
                                             vocabulary_size_, " tokens, below ", id_limit()));
  }
  return absl::OkStatus();
}

std::optional<TokenId> Tokenizer::FindToken(std::string_view text) const {
  TokenId id = added_.Find(text);
  if (id == kNoToken) id = vocabulary_.Find(text);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::vector<TokenId> Tokenizer::SpecialIds() const {
  std::vector<TokenId> ids;
  for (TokenId id = 0; id < id_limit(); ++id) {
    if (IsSpecial(id)) ids.push_back(id);
  }
  return ids;
}

void Tokenizer::BuildTokenTable() {
  tokens_.resize(vocabulary_.id_limit());
  for (TokenId id = 0; id < vocabulary_.id_limit(); ++id) {
    if (!vocabulary_.Has(id)) continue;
    const std::string_view text = vocabulary_.Text(id);
    tokens_[id] = {text, text, added_.IsSpecialText(text)};
  }
  vocabulary_size_ = vocabulary_.size();
  for (const auto& [id, entry] : added_.entries()) {
    if (!vocabulary_.Has(id)) ++vocabulary_size_;
    if (id >= id_limit()) tokens_.resize(id + 1);
    tokens_[id] = {entry.token.content, entry.decode_text,
                   entry.is_special || added_.IsSpecialText(entry.decode_text)};
  }
}

}  // namespace sluice
