// A SentencePiece model file taken apart: the fields of its protocol buffer that decide how text
// becomes pieces (sentencepiece_model.proto). A plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

struct SentencePieceFile {
  // Numbered as in the file.
  enum class PieceType : uint8_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 3,
    kUserDefined = 4,
    kUnused = 5,
    kByte = 6
  };
  struct Piece {
    std::string text;
    float score = 0;
    PieceType type = PieceType::kNormal;
  };
  enum class ModelType : uint8_t { kUnigram = 1, kBpe = 2, kWord = 3, kChar = 4 };

  std::vector<Piece> pieces;  // by id
  // trainer_spec
  ModelType model_type = ModelType::kUnigram;
  bool byte_fallback = false;
  bool treat_whitespace_as_suffix = false;
  std::string unk_surface = " \xE2\x81\x87 ";
  std::string bos_piece = "<s>";
  std::string eos_piece = "</s>";
  // normalizer_spec
  std::string precompiled_charsmap;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// INVALID_ARGUMENT where `bytes`, which messages call `source`, is no such protocol buffer or its
// pieces are not UTF-8.
absl::StatusOr<SentencePieceFile> ParseSentencePieceFile(std::string_view bytes,
                                                         std::string_view source);

}  // namespace sluice
