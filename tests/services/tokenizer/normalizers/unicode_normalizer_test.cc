#include "services/tokenizer/normalizers/unicode_normalizer.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "services/tokenizer/text/utf8.h"
#include "tests/services/tokenizer/test_tokenizers.h"

namespace sluice {
namespace {

constexpr NormalizationForm kForms[] = {NormalizationForm::kNfc, NormalizationForm::kNfd,
                                        NormalizationForm::kNfkc, NormalizationForm::kNfkd};

std::string Normalize(NormalizationForm form, std::string_view text) {
  MappedText mapped(text, std::nullopt);
  MakeUnicodeNormalizer(form)->Normalize(&mapped);
  return std::string(mapped.text());
}

// utf8proc's own normalization of a whole text, which must not hold NUL.
std::string Reference(NormalizationForm form, const std::string& text) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.c_str());
  utf8proc_uint8_t* result = nullptr;
  switch (form) {
    case NormalizationForm::kNfc:
      result = utf8proc_NFC(bytes);
      break;
    case NormalizationForm::kNfd:
      result = utf8proc_NFD(bytes);
      break;
    case NormalizationForm::kNfkc:
      result = utf8proc_NFKC(bytes);
      break;
    case NormalizationForm::kNfkd:
      result = utf8proc_NFKD(bytes);
      break;
  }
  std::string out = reinterpret_cast<const char*>(result);
  std::free(result);
  return out;
}

TEST(UnicodeNormalizer, KnowsTheForms) {
  const std::string text = "e\u0301\u212b\ufb01\uac01";
  EXPECT_EQ(Normalize(NormalizationForm::kNfc, text), "\u00e9\u00c5\ufb01\uac01");
  EXPECT_EQ(Normalize(NormalizationForm::kNfd, text), "e\u0301A\u030a\ufb01\u1100\u1161\u11a8");
  EXPECT_EQ(Normalize(NormalizationForm::kNfkc, text), "\u00e9\u00c5fi\uac01");
  EXPECT_EQ(Normalize(NormalizationForm::kNfkd, text), "e\u0301A\u030afi\u1100\u1161\u11a8");
}

TEST(UnicodeNormalizer, OrdersMarksAndComposesAcrossThem) {
  EXPECT_EQ(Normalize(NormalizationForm::kNfc, "a\u0301\u0316"), "\u00e1\u0316");
  EXPECT_EQ(Normalize(NormalizationForm::kNfc, "a\u0316\u0301"), "\u00e1\u0316");
  EXPECT_EQ(Normalize(NormalizationForm::kNfc, "a\u0302\u0301"), "\u1ea5");
  EXPECT_EQ(Normalize(NormalizationForm::kNfc, "a\u0301\u0302"), "\u00e1\u0302");  // blocked
  EXPECT_EQ(Normalize(NormalizationForm::kNfc, "\u0958"), "\u0915\u093c");         // excluded
}

TEST(UnicodeNormalizer, AgreesWithWholeTextNormalization) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    std::string text = testing::RandomText(seed, 60);
    std::erase(text, '\0');
    for (const NormalizationForm form : kForms) {
      ASSERT_EQ(Normalize(form, text), Reference(form, text)) << "seed " << seed;
    }
  }
}

TEST(UnicodeNormalizer, EveryCharacterComesFromItsSource) {
  const std::string text = "xe\u0301y\u00e9\u0316\u0301\ufb01z";
  for (const NormalizationForm form : kForms) {
    MappedText mapped(text, SourceMap(text, 0));
    MakeUnicodeNormalizer(form)->Normalize(&mapped);
    ASSERT_NE(mapped.map(), nullptr);
    uint32_t end = 0;
    for (size_t at = 0; at < mapped.text().size();) {
      const size_t next = at + ReadUtf8(mapped.text(), at).length;
      const ByteRange source = mapped.map()->Range(at, next);
      EXPECT_LE(source.begin, end);
      EXPECT_LT(source.begin, source.end);
      EXPECT_GE(source.end, end);
      // What stays the same comes from the same.
      const std::string from = text.substr(source.begin, source.end - source.begin);
      EXPECT_NE(Normalize(form, from).find(mapped.text().substr(at, next - at)), std::string::npos)
          << from;
      end = source.end;
      at = next;
    }
    EXPECT_EQ(end, text.size());
  }
}

}  // namespace
}  // namespace sluice
