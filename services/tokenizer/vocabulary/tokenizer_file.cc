#include "services/tokenizer/vocabulary/tokenizer_file.h"

#include <utility>

#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {
namespace {

using nlohmann::json;

constexpr size_t kMaxFileDepth = 64;
constexpr size_t kMaxFileBytes = size_t{1} << 30;

// Takes the parser's events. Its public functions are the interface of nlohmann-json's SAX parser;
// each returns false to stop.
class Reader {
 public:
  explicit Reader(TokenizerFile* file) : file_(*file) {}

  const absl::Status& status() const { return status_; }

  bool null() { return Value(nullptr); }
  bool boolean(bool value) { return Value(value); }
  bool number_integer(json::number_integer_t value) {
    return table_ == Table::kScored ? Score(static_cast<double>(value)) : Value(value);
  }
  bool number_float(json::number_float_t value, const json::string_t&) {
    return table_ == Table::kScored ? Score(value) : Value(value);
  }
  bool binary(json::binary_t&) { return Fail("holds binary data; accepted: JSON"); }

  bool number_unsigned(json::number_unsigned_t value) {
    if (table_ == Table::kScored) return Score(static_cast<double>(value));
    return table_ == Table::kVocabulary ? VocabularyId(value) : Value(value);
  }

  bool string(json::string_t& value) {
    switch (table_) {
      case Table::kMerges:
        return MergeText(value);
      case Table::kMergePair:
        return MergePart(value);
      case Table::kScored:
        return ScoredText(value);
      default:
        return Value(std::move(value));
    }
  }

  bool key(json::string_t& name) {
    if (table_ == Table::kVocabulary) {
      file_.vocabulary.texts += name;
      key_size_ = name.size();
      return true;
    }
    if (open_.back()->contains(name)) {
      return Fail(StrCat("the key ", Quoted(name), " is there twice"));
    }
    key_ = std::move(name);
    return true;
  }

  bool start_object(size_t) {
    if (AtModelMember("vocab")) {
      if (file_.vocabulary.present) return Fail("model.vocab is there twice");
      table_ = Table::kVocabulary;
      file_.vocabulary.present = true;
      return true;
    }
    return Enter(json::object());
  }

  bool end_object() {
    if (table_ == Table::kVocabulary) {
      table_ = Table::kNone;
      key_.clear();
      return true;
    }
    return Leave();
  }

  bool start_array(size_t) {
    if (table_ == Table::kMerges) {
      table_ = Table::kMergePair;
      num_parts_ = 0;
      return true;
    }
    if (table_ == Table::kScoredList) {
      table_ = Table::kScored;
      num_parts_ = 0;
      return true;
    }
    if (AtModelMember("vocab")) {
      if (file_.vocabulary.present) return Fail("model.vocab is there twice");
      table_ = Table::kScoredList;
      file_.vocabulary.present = file_.vocabulary.is_list = true;
      return true;
    }
    if (AtModelMember("merges")) {
      if (file_.merges.present) return Fail("model.merges is there twice");
      table_ = Table::kMerges;
      file_.merges.present = true;
      return true;
    }
    return Enter(json::array());
  }

  bool end_array() {
    if (table_ == Table::kMergePair) {
      table_ = Table::kMerges;
      return num_parts_ == 2 || FailMerge(StrCat("is a list of ", num_parts_));
    }
    if (table_ == Table::kScored) {
      table_ = Table::kScoredList;
      if (num_parts_ != 2) return FailScored(StrCat("is a list of ", num_parts_));
      is_entry_done_ = false;
      return true;
    }
    if (table_ == Table::kMerges || table_ == Table::kScoredList) {
      table_ = Table::kNone;
      return true;
    }
    return Leave();
  }

  bool parse_error(size_t position, const std::string&, const json::exception& error) {
    std::string_view reason = error.what();
    if (const size_t start = reason.rfind(": "); start != reason.npos) {
      reason.remove_prefix(start + 2);
    }
    return Fail(StrCat("is not JSON at byte ", position > 0 ? position - 1 : 0, ": ",
                       Quoted(reason.substr(0, 200))));
  }

 private:
  // Which of the large tables is being read.
  enum class Table { kNone, kVocabulary, kMerges, kMergePair, kScoredList, kScored };

  bool Fail(std::string_view message) {
    status_ = absl::InvalidArgumentError(StrCat(file_.source, ": ", message));
    return false;
  }
  bool FailMerge(std::string_view what) {
    return Fail(StrCat("model.merges[", file_.merges.entries.size(), "] ", what,
                       "; accepted: \"left right\" or [\"left\", \"right\"]"));
  }

  // What does not belong into the large table being read.
  bool FailTable(const json& value) {
    if (table_ == Table::kVocabulary) return FailVocabulary(ValueText(value));
    const std::string what = StrCat("holds ", ValueText(value));
    const bool in_merges = table_ == Table::kMerges || table_ == Table::kMergePair;
    return in_merges ? FailMerge(what) : FailScored(what);
  }

  bool AtModelMember(std::string_view name) const {
    return table_ == Table::kNone && open_.size() == 2 && in_model_ && key_ == name;
  }

  // A value that is neither an object nor an array.
  bool Value(json value) {
    if (table_ != Table::kNone) return FailTable(value);
    Place(std::move(value));
    return true;
  }

  json* Place(json value) {
    if (open_.empty()) {
      file_.rest = std::move(value);
      return &file_.rest;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[std::exchange(key_, {})] = std::move(value));
  }

  bool Enter(json container) {
    if (table_ != Table::kNone) return FailTable(container);
    if (open_.size() >= kMaxFileDepth) {
      return Fail(StrCat("is nested deeper than ", kMaxFileDepth, " levels"));
    }
    if (open_.size() == 1) in_model_ = key_ == "model";
    open_.push_back(Place(std::move(container)));
    return true;
  }

  bool Leave() {
    open_.pop_back();
    return true;
  }

  bool VocabularyId(uint64_t id) {
    if (id >= static_cast<uint64_t>(Vocabulary::kMaxIds)) return FailVocabulary(StrCat(id));
    file_.vocabulary.entries.push_back(
        {static_cast<uint32_t>(key_size_), static_cast<TokenId>(id)});
    return true;
  }
  bool FailVocabulary(std::string_view value) {
    const std::string_view texts = file_.vocabulary.texts;
    const std::string_view token = texts.substr(texts.size() - key_size_);
    return Fail(StrCat("model.vocab[", Quoted(token), "] is ", value,
                       "; accepted: an integer from 0 to ", Vocabulary::kMaxIds - 1));
  }

  bool MergeText(std::string_view merge) {
    if (merge.substr(0, 8) == "#version") return true;  // the first line of a merges.txt
    const size_t space = merge.find(' ');
    if (space == merge.npos || merge.find(' ', space + 1) != merge.npos) {
      return FailMerge(StrCat("is ", ValueText(json(merge))));
    }
    file_.merges.texts.append(merge, 0, space);
    file_.merges.texts.append(merge, space + 1);
    file_.merges.entries.push_back(
        {static_cast<uint32_t>(space), static_cast<uint32_t>(merge.size() - space - 1)});
    return true;
  }

  bool MergePart(std::string_view part) {
    file_.merges.texts += part;
    if (++num_parts_ == 1) left_size_ = part.size();
    if (num_parts_ == 2) {
      file_.merges.entries.push_back(
          {static_cast<uint32_t>(left_size_), static_cast<uint32_t>(part.size())});
    }
    return true;
  }

  // Of [token, score].
  bool ScoredText(std::string_view text) {
    if (num_parts_++ != 0) return FailScored("has its parts in the wrong order");
    file_.vocabulary.texts += text;
    left_size_ = text.size();
    return true;
  }

  bool Score(double score) {
    if (num_parts_++ != 1) return FailScored("has its parts in the wrong order");
    TokenizerFile::VocabularyTable& table = file_.vocabulary;
    if (table.entries.size() >= static_cast<size_t>(Vocabulary::kMaxIds)) {
      return Fail(StrCat("model.vocab has more than ", Vocabulary::kMaxIds, " tokens"));
    }
    table.entries.push_back(
        {static_cast<uint32_t>(left_size_), static_cast<TokenId>(table.entries.size())});
    table.scores.push_back(score);
    is_entry_done_ = true;
    return true;
  }

  bool FailScored(std::string_view what) {
    const size_t index = file_.vocabulary.entries.size() - (is_entry_done_ ? 1 : 0);
    return Fail(StrCat("model.vocab[", index, "] ", what, "; accepted: [\"token\", score]"));
  }

  TokenizerFile& file_;
  absl::Status status_;
  std::vector<json*> open_;  // the objects and arrays being read, outermost first
  bool in_model_ = false;    // open_[1] is the model
  std::string key_;          // of the member to come
  Table table_ = Table::kNone;
  size_t key_size_ = 0;         // of the last vocabulary entry's text
  int num_parts_ = 0;           // of the pair being read
  size_t left_size_ = 0;        // of its first part
  bool is_entry_done_ = false;  // the [token, score] being read was counted
};

}  // namespace

absl::StatusOr<TokenizerFile> ParseTokenizerFile(std::string_view text, std::string_view source) {
  TokenizerFile file;
  file.source = std::string(source);
  if (text.size() > kMaxFileBytes) {
    return absl::InvalidArgumentError(
        StrCat(source, ": has ", text.size(), " bytes; accepted: at most ", kMaxFileBytes));
  }
  Reader reader(&file);
  if (!json::sax_parse(text, &reader)) return reader.status();
  return file;
}

}  // namespace sluice
