#include "services/tokenizer/regex/unicode_scripts.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/check.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice {
namespace {

// The first three are those that UnicodeScript names.
constexpr std::string_view kScripts[] = {"Han",
                                         "Hiragana",
                                         "Katakana",
                                         "Adlam",
                                         "Ahom",
                                         "AnatolianHieroglyphs",
                                         "Arabic",
                                         "Armenian",
                                         "Avestan",
                                         "Balinese",
                                         "Bamum",
                                         "BassaVah",
                                         "Batak",
                                         "Bengali",
                                         "Bhaiksuki",
                                         "Bopomofo",
                                         "Brahmi",
                                         "Braille",
                                         "Buginese",
                                         "Buhid",
                                         "CanadianAboriginal",
                                         "Carian",
                                         "CaucasianAlbanian",
                                         "Chakma",
                                         "Cham",
                                         "Cherokee",
                                         "Common",
                                         "Coptic",
                                         "Cuneiform",
                                         "Cypriot",
                                         "Cyrillic",
                                         "Deseret",
                                         "Devanagari",
                                         "Duployan",
                                         "EgyptianHieroglyphs",
                                         "Elbasan",
                                         "Ethiopic",
                                         "Georgian",
                                         "Glagolitic",
                                         "Gothic",
                                         "Grantha",
                                         "Greek",
                                         "Gujarati",
                                         "Gurmukhi",
                                         "Hangul",
                                         "Hanunoo",
                                         "Hatran",
                                         "Hebrew",
                                         "ImperialAramaic",
                                         "Inherited",
                                         "InscriptionalPahlavi",
                                         "InscriptionalParthian",
                                         "Javanese",
                                         "Kaithi",
                                         "Kannada",
                                         "KayahLi",
                                         "Kharoshthi",
                                         "Khmer",
                                         "Khojki",
                                         "Khudawadi",
                                         "Lao",
                                         "Latin",
                                         "Lepcha",
                                         "Limbu",
                                         "LinearA",
                                         "LinearB",
                                         "Lisu",
                                         "Lycian",
                                         "Lydian",
                                         "Mahajani",
                                         "Malayalam",
                                         "Mandaic",
                                         "Manichaean",
                                         "Marchen",
                                         "MeeteiMayek",
                                         "MendeKikakui",
                                         "MeroiticCursive",
                                         "MeroiticHieroglyphs",
                                         "Miao",
                                         "Modi",
                                         "Mongolian",
                                         "Mro",
                                         "Multani",
                                         "Myanmar",
                                         "Nabataean",
                                         "NewTaiLue",
                                         "Newa",
                                         "Nko",
                                         "Ogham",
                                         "OlChiki",
                                         "OldHungarian",
                                         "OldItalic",
                                         "OldNorthArabian",
                                         "OldPermic",
                                         "OldPersian",
                                         "OldSouthArabian",
                                         "OldTurkic",
                                         "Oriya",
                                         "Osage",
                                         "Osmanya",
                                         "PahawhHmong",
                                         "Palmyrene",
                                         "PauCinHau",
                                         "PhagsPa",
                                         "Phoenician",
                                         "PsalterPahlavi",
                                         "Rejang",
                                         "Runic",
                                         "Samaritan",
                                         "Saurashtra",
                                         "Sharada",
                                         "Shavian",
                                         "Siddham",
                                         "SignWriting",
                                         "Sinhala",
                                         "SoraSompeng",
                                         "Sundanese",
                                         "SylotiNagri",
                                         "Syriac",
                                         "Tagalog",
                                         "Tagbanwa",
                                         "TaiLe",
                                         "TaiTham",
                                         "TaiViet",
                                         "Takri",
                                         "Tamil",
                                         "Tangut",
                                         "Telugu",
                                         "Thaana",
                                         "Thai",
                                         "Tibetan",
                                         "Tifinagh",
                                         "Tirhuta",
                                         "Ugaritic",
                                         "Vai",
                                         "WarangCiti",
                                         "Yi"};

struct Range {
  char32_t first;
  UnicodeScript script;  // up to the next range
};

// No character of a script lies between the end of the first of these and the second.
constexpr char32_t kEndOfPlanes = 0x32400;
constexpr char32_t kTags = 0xE0000;
constexpr char32_t kEndOfTags = 0xE01F0;

std::string AllCharacters() {
  std::string text;
  for (char32_t c = 0; c < kEndOfTags; c = c + 1 == kEndOfPlanes ? kTags : c + 1) {
    if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, &text);
  }
  return text;
}

pcre2_code* CompileScripts() {
  std::string pattern;
  for (const std::string_view script : kScripts) {
    pattern.append(pattern.empty() ? "" : "|").append("(\\p{sc:").append(script).append("}+)");
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK, &error, &offset, nullptr);
  SLUICE_CHECK(code != nullptr);
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return code;
}

// Of every run of characters of one script, and of what lies between them.
std::vector<Range> BuildRanges() {
  const std::string text = AllCharacters();
  pcre2_code* code = CompileScripts();
  pcre2_match_data* match = pcre2_match_data_create_from_pattern(code, nullptr);
  std::vector<Range> ranges = {{0, UnicodeScript::kUnknown}};
  size_t at = 0;
  while (true) {
    // One more than the number of the alternative.
    const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                   PCRE2_NO_UTF_CHECK, match, nullptr);
    if (result <= 0) break;
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(match);
    if (bounds[0] > at) ranges.push_back({ReadUtf8(text, at).code_point, UnicodeScript::kUnknown});
    ranges.push_back({ReadUtf8(text, bounds[0]).code_point, UnicodeScript(result - 1)});
    at = bounds[1];
  }
  ranges.push_back({kEndOfTags, UnicodeScript::kUnknown});
  pcre2_match_data_free(match);
  pcre2_code_free(code);
  return ranges;
}

}  // namespace

UnicodeScript UnicodeScriptOf(char32_t code_point) {
  static const std::vector<Range>& ranges = *new std::vector<Range>(BuildRanges());
  const auto after =
      std::upper_bound(ranges.begin(), ranges.end(), code_point,
                       [](char32_t c, const Range& range) { return c < range.first; });
  return (after - 1)->script;
}

}  // namespace sluice
