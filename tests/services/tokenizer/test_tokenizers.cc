#include "tests/services/tokenizer/test_tokenizers.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "services/tokenizer/text/byte_alphabet.h"
#include "services/tokenizer/text/utf8.h"

namespace sluice::testing {
namespace {

template <typename T>
std::vector<T> ReadJsonLines(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::vector<T> values;
  for (std::string line; std::getline(file, line);) {
    values.push_back(nlohmann::json::parse(line).get<T>());
  }
  return values;
}

}  // namespace

std::vector<std::string> ReadJsonStrings(const std::string& path) {
  return ReadJsonLines<std::string>(path);
}

std::vector<std::vector<TokenId>> ReadJsonIds(const std::string& path) {
  return ReadJsonLines<std::vector<TokenId>>(path);
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::unique_ptr<const Tokenizer> LoadOrFail(const std::string& folder) {
  auto tokenizer = Tokenizer::Load(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::string SmallTokenizerJson(const TokenizerParts& parts) {
  nlohmann::json model = nlohmann::json::parse("{" + parts.model_settings + "}");
  model["type"] = "BPE";
  nlohmann::json& vocab = model["vocab"] = nlohmann::json::object();
  for (int byte = 0; byte < 256; ++byte) {
    vocab[std::string(ByteToAlphabet(static_cast<uint8_t>(byte)))] = byte;
  }
  model["merges"] = nlohmann::json::array();
  for (const auto& [left, right] : parts.merges) {
    vocab.emplace(left + right, vocab.size());
    model["merges"].push_back({left, right});
  }
  const nlohmann::json json = {{"version", "1.0"},
                               {"truncation", nullptr},
                               {"padding", nullptr},
                               {"added_tokens", nlohmann::json::parse(parts.added_tokens)},
                               {"normalizer", nlohmann::json::parse(parts.normalizer)},
                               {"pre_tokenizer", nlohmann::json::parse(parts.pre_tokenizer)},
                               {"post_processor", nlohmann::json::parse(parts.post_processor)},
                               {"decoder", nlohmann::json::parse(parts.decoder)},
                               {"model", model}};
  return json.dump();
}

std::unique_ptr<const Tokenizer> SmallTokenizer(const TokenizerParts& parts) {
  auto tokenizer = Tokenizer::FromJson(SmallTokenizerJson(parts), "small.json");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return tokenizer.ok() ? *std::move(tokenizer) : nullptr;
}

std::string RandomText(uint32_t seed, size_t num_chars, const std::vector<std::string>& spice) {
  // First and last code points of what to draw from.
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {'a', 'e'},         {'a', 'z'},       {' ', ' '},       {' ', '~'},       {'0', '9'},
      {'\n', '\r'},       {0xA0, 0x24F},    {0x300, 0x345},   {0x3B1, 0x3C9},   {0x400, 0x44F},
      {0x5D0, 0x5EA},     {0x900, 0x97F},   {0x1100, 0x11FF}, {0x2000, 0x206F}, {0x3040, 0x30FF},
      {0x4E00, 0x4E80},   {0xAC00, 0xAC80}, {0xFB00, 0xFB06}, {0xFF10, 0xFF5A}, {0x1F600, 0x1F64F},
      {0x1D400, 0x1D454}, {0x0, 0x10FFFF}};
  std::mt19937 random(seed);
  std::string text;
  for (size_t i = 0; i < num_chars; ++i) {
    if (!spice.empty() && random() % 8 == 0) text += spice[random() % spice.size()];
    const auto [first, last] = kRanges[random() % std::size(kRanges)];
    const char32_t c = first + random() % (last - first + 1);
    if (c < 0xD800 || c > 0xDFFF) AppendUtf8(c, &text);
  }
  return text;
}

}  // namespace sluice::testing
