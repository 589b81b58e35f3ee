#include "services/tokenizer/models/bpe_model.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "services/tokenizer/models/word_cache.h"
#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {

struct BpeModel::Scratch : ModelScratch {
  WordCache cache;
  BpeMerger merger;
  std::vector<BpeSymbol> symbols;
  // Unknown characters not yet appended: more may join them.
  std::optional<BpeSymbol> unknown;
  std::string spelling;
};

namespace {

// Characters between two looks of a loop whose every round is short.
constexpr size_t kCharactersAtATime = 256;
// Memory that a longer piece took is given back.
constexpr size_t kMaxKeptSymbols = 1 << 16;

}  // namespace

BpeModel::BpeModel(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options)
    : vocabulary_(vocabulary),
      merges_(std::move(merges)),
      options_(std::move(options)),
      has_affixes_(!options_.continuing_subword_prefix.empty() ||
                   !options_.end_of_word_suffix.empty()),
      splits_at_spaces_(CanSplitAtSpaces()) {
  std::vector<PrefixTrie::Entry> whole;
  for (const TokenId id : options_.whole_tokens) whole.emplace_back(vocabulary.Text(id), id);
  whole_tokens_ = PrefixTrie(std::move(whole));
  for (int byte = 0; byte < 256; ++byte) {
    alphabet_[byte] = vocabulary.Find(ByteToAlphabet(static_cast<uint8_t>(byte)));
    bytes_[byte] = vocabulary.Find(absl::StrFormat("<0x%02X>", byte));
  }
}

std::unique_ptr<ModelScratch> BpeModel::NewScratch() const { return std::make_unique<Scratch>(); }

bool BpeModel::CanSplitAtSpaces() const {
  // Unknown characters before one must not wait for more behind it.
  if (vocabulary_.Find(kVisibleSpace) == kNoToken) return false;
  if (has_affixes_ || options_.ignore_merges || !options_.whole_tokens.empty()) return false;
  bool can = true;
  merges_.ForEach([&](TokenId left, TokenId right, const MergeRule&) {
    const bool reaches_over = vocabulary_.Text(right).starts_with(kVisibleSpace) &&
                              !vocabulary_.Text(left).ends_with(kVisibleSpace);
    can = can && !reaches_over;
  });
  return can;
}

void BpeModel::Tokenize(const Piece& piece, ModelScratch& model_scratch, Encoding* out) const {
  auto& scratch = static_cast<Scratch&>(model_scratch);
  if (!splits_at_spaces_ || piece.byte_level) return TokenizeWord(piece, scratch, out);
  const std::string_view text = piece.text;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (text.substr(end).starts_with(kVisibleSpace)) end += kVisibleSpace.size();
    end = std::min(text.find(kVisibleSpace, end), text.size());
    TokenizeWord(piece.Part(begin, end), scratch, out);
    begin = end;
  }
}

void BpeModel::TokenizeWord(const Piece& piece, Scratch& scratch, Encoding* out) const {
  if (!scratch.Pass(piece.text.size())) return;
  const bool wants_offsets = piece.map != nullptr;
  if (!wants_offsets) {
    const absl::Span<const TokenId> known = scratch.cache.Get(piece.text);
    if (!known.empty()) {
      out->ids.insert(out->ids.end(), known.begin(), known.end());
      return;
    }
  }
  Encode(piece, scratch);
  const size_t num_before = out->ids.size();
  size_t begin = 0, since_look = 0;
  for (const BpeSymbol& symbol : scratch.symbols) {
    if (++since_look == kCharactersAtATime) {
      since_look = 0;
      if (!scratch.Pass(kCharactersAtATime)) break;
    }
    out->ids.push_back(symbol.id);
    // The bytes of a spelling may be more than those of the piece.
    const size_t end = std::min(piece.text.size(), begin + symbol.num_bytes);
    // A token of no bytes of its own is a part of the character that the one before began.
    if (wants_offsets && begin == end && !out->offsets.empty()) {
      out->offsets.push_back(out->offsets.back());
    } else if (wants_offsets) {
      out->offsets.push_back(piece.Source(begin, end));
    }
    begin = end;
  }
  if (!wants_offsets && scratch.Pass(0)) {
    scratch.cache.Put(piece.text, absl::MakeConstSpan(out->ids).subspan(num_before));
  }
  if (piece.text.size() > kMaxKeptSymbols) {
    scratch.symbols = {};
    scratch.merger = {};
  }
}

void BpeModel::Encode(const Piece& piece, Scratch& scratch) const {
  scratch.symbols.clear();
  scratch.unknown.reset();
  if (options_.ignore_merges) {
    if (const TokenId whole = WholeToken(piece, scratch); whole != kNoToken) {
      scratch.symbols.push_back({whole, static_cast<uint32_t>(piece.text.size())});
      return;
    }
  }
  if (has_affixes_) return EncodeAffixed(piece, scratch);
  size_t next_look = kCharactersAtATime;
  for (size_t at = 0; at < piece.text.size();) {
    if (at >= next_look) {
      next_look = at + kCharactersAtATime;
      if (!scratch.Pass(kCharactersAtATime)) return;
    }
    if (piece.byte_level) {
      const auto byte = static_cast<uint8_t>(piece.text[at]);
      if (alphabet_[byte] != kNoToken && !scratch.unknown.has_value()) {
        scratch.symbols.push_back({alphabet_[byte], 1});
      } else {
        AddCharacter(ByteToAlphabet(byte), 1, scratch);
      }
      ++at;
    } else if (const auto [size, id] = WholeTokenAt(piece.text.substr(at)); size > 0) {
      AddKnown({id, static_cast<uint32_t>(size)}, scratch);
      at += size;
    } else {
      const uint32_t length = ReadUtf8(piece.text, at).length;
      AddCharacter(piece.text.substr(at, length), length, scratch);
      at += length;
    }
  }
  if (scratch.unknown.has_value()) scratch.symbols.push_back(*scratch.unknown);
  scratch.merger.Merge(merges_, &scratch.symbols, &scratch);
}

void BpeModel::EncodeAffixed(const Piece& piece, Scratch& scratch) const {
  for (size_t at = 0; at < piece.text.size();) {
    if (!scratch.Pass(1)) return;
    const uint32_t length = piece.byte_level ? 1 : ReadUtf8(piece.text, at).length;
    const std::string_view text = piece.text.substr(at, length);
    std::string& spelling = scratch.spelling;
    spelling = at > 0 ? options_.continuing_subword_prefix : "";
    spelling += piece.byte_level ? ByteToAlphabet(static_cast<uint8_t>(text[0])) : text;
    at += length;
    if (at == piece.text.size()) spelling += options_.end_of_word_suffix;
    AddCharacter(spelling, length, scratch);
  }
  if (scratch.unknown.has_value()) scratch.symbols.push_back(*scratch.unknown);
  scratch.merger.Merge(merges_, &scratch.symbols, &scratch);
}

TokenId BpeModel::WholeToken(const Piece& piece, Scratch& scratch) const {
  std::string_view text = piece.text;
  if (piece.byte_level) {
    scratch.spelling.clear();
    AppendInAlphabet(piece.text, &scratch.spelling);
    text = scratch.spelling;
  }
  const TokenId id = vocabulary_.Find(text);
  return options_.control_tokens.contains(id) ? kNoToken : id;
}

void BpeModel::AddCharacter(std::string_view text, uint32_t num_bytes, Scratch& scratch) const {
  const TokenId id = vocabulary_.Find(text);
  if (id == kNoToken) {
    if (!AddAsBytes(text, num_bytes, scratch)) AddUnknown(num_bytes, scratch);
    return;
  }
  AddKnown({id, num_bytes}, scratch);
}

void BpeModel::AddKnown(const BpeSymbol& symbol, Scratch& scratch) {
  if (scratch.unknown.has_value()) scratch.symbols.push_back(*scratch.unknown);
  scratch.unknown.reset();
  scratch.symbols.push_back(symbol);
}

// Does not append the unknown characters before it: Hugging Face's library, which defines the
// format, puts them behind the bytes.
bool BpeModel::AddAsBytes(std::string_view text, uint32_t num_bytes, Scratch& scratch) const {
  if (!options_.byte_fallback) return false;
  for (const char byte : text) {
    if (bytes_[static_cast<uint8_t>(byte)] == kNoToken) return false;
  }
  // A character's spelling may have more bytes than the character.
  for (const char byte : text) {
    const uint32_t covered = std::min<uint32_t>(num_bytes, 1);
    scratch.symbols.push_back({bytes_[static_cast<uint8_t>(byte)], covered});
    num_bytes -= covered;
  }
  return true;
}

void BpeModel::AddUnknown(uint32_t num_bytes, Scratch& scratch) const {
  if (options_.unk_token == kNoToken) return;
  if (scratch.unknown.has_value() && options_.fuse_unk) {
    scratch.unknown->num_bytes += num_bytes;
    return;
  }
  if (scratch.unknown.has_value()) scratch.symbols.push_back(*scratch.unknown);
  scratch.unknown = BpeSymbol{options_.unk_token, num_bytes};
}

}  // namespace sluice
