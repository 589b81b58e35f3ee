#include "services/tokenizer/sentencepiece/sentencepiece_file.h"

#include <cstring>

#include "services/tokenizer/text/strings.h"
#include "services/tokenizer/text/utf8.h"
#include "services/tokenizer/vocabulary/vocabulary.h"

namespace sluice {
namespace {

// Walks over the fields of one message in the wire format of protocol buffers. After the last one,
// and at the first that is malformed, Next returns false.
class WireFields {
 public:
  explicit WireFields(std::string_view bytes) : bytes_(bytes) {}

  bool Next() {
    uint64_t tag = 0;
    if (bytes_.empty() || !ReadVarint(&tag)) return false;
    number_ = static_cast<uint32_t>(tag >> 3);
    value_ = 0;
    content_ = {};
    switch (tag & 7) {
      case 0:
        return ReadVarint(&value_);
      case 1:
        return ReadFixed(8);
      case 2:
        return ReadVarint(&value_) && Take(value_, &content_);
      case 5:
        return ReadFixed(4);
      default:
        return Fail();
    }
  }

  bool ok() const { return ok_; }
  uint32_t number() const { return number_; }
  // Of a field that is a number.
  uint64_t value() const { return value_; }
  float float_value() const {
    const auto bits = static_cast<uint32_t>(value_);
    float number;
    std::memcpy(&number, &bits, sizeof(number));
    return number;
  }
  // Of a field that is a string or a message.
  std::string_view content() const { return content_; }

 private:
  bool Fail() {
    ok_ = false;
    return false;
  }

  bool ReadVarint(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      *value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return Fail();
  }

  bool ReadFixed(size_t size) {
    std::string_view bytes;
    if (!Take(size, &bytes)) return false;
    for (size_t i = size; i > 0; --i) value_ = value_ << 8 | static_cast<uint8_t>(bytes[i - 1]);
    return true;
  }

  bool Take(uint64_t size, std::string_view* content) {
    if (size > bytes_.size()) return Fail();
    *content = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return true;
  }

  std::string_view bytes_;
  bool ok_ = true;
  uint32_t number_ = 0;
  uint64_t value_ = 0;
  std::string_view content_;
};

bool ReadPiece(std::string_view bytes, SentencePieceFile::Piece* piece) {
  WireFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 1) piece->text = fields.content();
    if (fields.number() == 2) piece->score = fields.float_value();
    if (fields.number() == 3) {
      if (fields.value() < 1 || fields.value() > 6) return false;
      piece->type = static_cast<SentencePieceFile::PieceType>(fields.value());
    }
  }
  return fields.ok() && FirstInvalidUtf8(piece->text) == std::string::npos;
}

bool ReadTrainerSpec(std::string_view bytes, SentencePieceFile* file) {
  WireFields fields(bytes);
  while (fields.Next()) {
    switch (fields.number()) {
      case 3:
        if (fields.value() < 1 || fields.value() > 4) return false;
        file->model_type = static_cast<SentencePieceFile::ModelType>(fields.value());
        break;
      case 24:
        file->treat_whitespace_as_suffix = fields.value() != 0;
        break;
      case 35:
        file->byte_fallback = fields.value() != 0;
        break;
      case 44:
        file->unk_surface = fields.content();
        break;
      case 46:
        file->bos_piece = fields.content();
        break;
      case 47:
        file->eos_piece = fields.content();
        break;
      default:
        break;
    }
  }
  return fields.ok() && FirstInvalidUtf8(file->unk_surface) == std::string::npos;
}

bool ReadNormalizerSpec(std::string_view bytes, SentencePieceFile* file) {
  WireFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 2) file->precompiled_charsmap = fields.content();
    if (fields.number() == 3) file->add_dummy_prefix = fields.value() != 0;
    if (fields.number() == 4) file->remove_extra_whitespaces = fields.value() != 0;
    if (fields.number() == 5) file->escape_whitespaces = fields.value() != 0;
  }
  return fields.ok();
}

}  // namespace

absl::StatusOr<SentencePieceFile> ParseSentencePieceFile(std::string_view bytes,
                                                         std::string_view source) {
  const auto fail = [&](std::string_view what) {
    return absl::InvalidArgumentError(
        StrCat(source, ": ", what, "; accepted: a SentencePiece model"));
  };
  SentencePieceFile file;
  WireFields fields(bytes);
  while (fields.Next()) {
    if (fields.number() == 1) {
      if (file.pieces.size() >= static_cast<size_t>(Vocabulary::kMaxIds)) {
        return fail(StrCat("has more than ", Vocabulary::kMaxIds, " pieces"));
      }
      if (!ReadPiece(fields.content(), &file.pieces.emplace_back())) {
        return fail(StrCat("pieces[", file.pieces.size() - 1, "] is malformed"));
      }
    }
    if (fields.number() == 2 && !ReadTrainerSpec(fields.content(), &file)) {
      return fail("trainer_spec is malformed");
    }
    if (fields.number() == 3 && !ReadNormalizerSpec(fields.content(), &file)) {
      return fail("normalizer_spec is malformed");
    }
  }
  if (!fields.ok()) return fail("is no protocol buffer");
  if (file.pieces.empty()) return fail("has no pieces");
  return file;
}

}  // namespace sluice
