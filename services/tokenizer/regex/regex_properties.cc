#include "services/tokenizer/regex/regex_properties.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/ascii.h"
#include "services/tokenizer/text/strings.h"

namespace sluice {
namespace {

constexpr std::string_view kWhitespace =
    R"(\x{9}-\x{d} \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotWhitespace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}!-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
// Below U+0100 Oniguruma goes by Latin-1, in which superscripts and fractions are of words.
constexpr std::string_view kWord =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
constexpr std::string_view kHexDigits = "0-9a-fA-F";

struct Named {
  std::string_view name;  // in small letters, without separators
  std::string_view set;
};

// Names that \p{...} and [:...:] share, except that the latter's punctuation includes symbols.
constexpr Named kNames[] = {
    {"alpha", R"(\p{Alphabetic})"},
    {"alnum", R"(\p{Alphabetic}\p{Nd})"},
    {"ascii", R"(\x{0}-\x{7f})"},
    {"blank", R"(\p{Zs}\x{9})"},
    {"cntrl", R"(\p{Cc})"},
    {"digit", R"(\p{Nd})"},
    {"graph", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co})"},
    {"lower", R"(\p{Lowercase})"},
    {"print", R"(\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Co}\p{Zs})"},
    {"punct", R"(\p{P})"},
    {"space", kWhitespace},
    {"upper", R"(\p{Uppercase})"},
    {"word", R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})"},
    {"xdigit", kHexDigits},
    {"letter", R"(\p{L})"},
    {"casedletter", R"(\p{Lu}\p{Ll}\p{Lt})"},
    {"lc", R"(\p{Lu}\p{Ll}\p{Lt})"},
    {"uppercaseletter", R"(\p{Lu})"},
    {"lowercaseletter", R"(\p{Ll})"},
    {"titlecaseletter", R"(\p{Lt})"},
    {"modifierletter", R"(\p{Lm})"},
    {"otherletter", R"(\p{Lo})"},
    {"mark", R"(\p{M})"},
    {"nonspacingmark", R"(\p{Mn})"},
    {"spacingmark", R"(\p{Mc})"},
    {"enclosingmark", R"(\p{Me})"},
    {"number", R"(\p{N})"},
    {"decimalnumber", R"(\p{Nd})"},
    {"letternumber", R"(\p{Nl})"},
    {"othernumber", R"(\p{No})"},
    {"punctuation", R"(\p{P})"},
    {"connectorpunctuation", R"(\p{Pc})"},
    {"dashpunctuation", R"(\p{Pd})"},
    {"openpunctuation", R"(\p{Ps})"},
    {"closepunctuation", R"(\p{Pe})"},
    {"initialpunctuation", R"(\p{Pi})"},
    {"finalpunctuation", R"(\p{Pf})"},
    {"otherpunctuation", R"(\p{Po})"},
    {"symbol", R"(\p{S})"},
    {"mathsymbol", R"(\p{Sm})"},
    {"currencysymbol", R"(\p{Sc})"},
    {"modifiersymbol", R"(\p{Sk})"},
    {"othersymbol", R"(\p{So})"},
    {"separator", R"(\p{Z})"},
    {"spaceseparator", R"(\p{Zs})"},
    {"lineseparator", R"(\p{Zl})"},
    {"paragraphseparator", R"(\p{Zp})"},
    {"other", R"(\p{C})"},
    {"control", R"(\p{Cc})"},
    {"format", R"(\p{Cf})"},
    {"unassigned", R"(\p{Cn})"},
    {"privateuse", R"(\p{Co})"},
    {"surrogate", R"(\p{Cs})"},
};

// Names compare without regard to case, spaces, hyphens and underscores.
std::string LooseName(std::string_view name) {
  std::string loose;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      loose += absl::ascii_tolower(static_cast<unsigned char>(c));
  }
  return loose;
}

std::string_view FindName(std::string_view loose) {
  for (const Named& named : kNames) {
    if (named.name == loose) return named.set;
  }
  return {};
}

bool Compiles(const std::string& pattern) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
  const bool ok = code != nullptr;
  pcre2_code_free(code);
  return ok;
}

}  // namespace

std::string_view SetOfEscape(char letter) {
  if (letter == 's') return kWhitespace;
  return letter == 'w' ? kWord : kHexDigits;
}

std::string_view NotWhitespaceSet() { return kNotWhitespace; }

std::string SetOfProperty(std::string_view name) {
  const std::string_view set = FindName(LooseName(name));
  if (!set.empty()) return std::string(set);
  std::string script = StrCat("\\p{sc:", name, "}");
  if (name.size() > 2 && Compiles(script)) return script;
  return StrCat("\\p{", name, "}");
}

std::string SetOfBracketName(std::string_view name) {
  if (name == "punct") return R"(\p{P}\p{S})";
  const std::string_view set = FindName(name);
  return set.empty() ? StrCat("[:", name, ":]") : std::string(set);
}

std::string NegatedSet(std::string_view set) {
  if (set == kWhitespace) return std::string(kNotWhitespace);
  if (set.substr(0, 3) != "\\p{" || set.find('}') + 1 != set.size()) return {};
  return StrCat("\\P", set.substr(2));
}

}  // namespace sluice
