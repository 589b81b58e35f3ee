// Masks held against the automaton itself, token by token: what a mask allows is what can be read.
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "services/constraint/engine/matcher.h"
#include "services/constraint/schema/schema_compiler.h"

namespace sluice {
namespace {

constexpr int32_t kEnd = 0;  // the end of a text
constexpr int32_t kSpecial = 1;

// All bytes alone, and strings of JSON's marks, words and pieces of characters.
std::shared_ptr<const TokenVocabulary> TestVocabulary() {
  TokenVocabularyOptions options;
  options.bytes = {"", ""};
  options.end_ids = {kEnd};
  for (int byte = 0; byte < 256; ++byte) options.bytes.emplace_back(1, static_cast<char>(byte));
  const std::string_view parts[] = {"\"", "{",  "}",  "[",  "]", ":",    ",",        " ",
                                    "a",  "ab", "1",  "23", ".", "\\",   "\\n",      "u00",
                                    "e",  "\n", "tr", "ue", "é", "\xE2", "\x82\xAC", "name"};
  std::mt19937 random(11);
  for (int i = 0; i < 4000; ++i) {
    std::string token;
    for (int n = 1 + static_cast<int>(random() % 5); n > 0; --n)
      token += parts[random() % std::size(parts)];
    options.bytes.push_back(token);
  }
  // Long ones, beyond what is arranged by length, and two tokens of the same bytes.
  for (const size_t length : {23, 24, 25, 26, 40, 200}) {
    options.bytes.emplace_back(length, 'a');
    options.bytes.push_back(std::string(length, 'b') + "\"");
  }
  options.bytes.push_back("ab");
  return *TokenVocabulary::Create(std::move(options));
}

bool Has(const TokenMask& mask, size_t token) {
  return (mask[token / 64] >> (token % 64) & 1) != 0;
}

// Walks at random, and asks of every token at every step whether it can be read.
void HoldAgainstAutomaton(const std::string& schema, int num_walks, int num_steps,
                          const ConstraintLimits& limits = {}) {
  const auto vocabulary = TestVocabulary();
  auto grammar = CompileJsonSchema(schema);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  const auto constraint = Constraint::Create(*std::move(grammar), vocabulary, limits);
  const auto plain = CompileJsonSchema(schema);
  std::mt19937 random(5);
  for (int walk = 0; walk < num_walks; ++walk) {
    Automaton automaton(**plain);
    Automaton::State state = automaton.start();
    Matcher matcher(constraint);
    TokenMask mask(vocabulary->mask_words());
    std::string text;
    for (int step = 0; step < num_steps; ++step) {
      ASSERT_TRUE(matcher.FillMask(absl::MakeSpan(mask)).ok());
      EXPECT_EQ(Has(mask, kEnd), automaton.IsAccepting(state)) << text;
      EXPECT_FALSE(Has(mask, kSpecial));
      std::vector<int32_t> allowed;
      for (size_t token = 2; token < vocabulary->size(); ++token) {
        const auto id = static_cast<int32_t>(token);
        Automaton::State after = state;
        for (const char c : vocabulary->bytes(id))
          after = automaton.Step(after, static_cast<uint8_t>(c));
        ASSERT_EQ(Has(mask, token), after != Automaton::kDead)
            << schema << "\nbehind " << text << "\ntoken " << vocabulary->bytes(id);
        if (after != Automaton::kDead) allowed.push_back(id);
      }
      // Nothing leads where nothing can follow.
      ASSERT_TRUE(!allowed.empty() || automaton.IsAccepting(state))
          << schema << "\nbehind " << text;
      if (allowed.empty()) break;
      const int32_t token = allowed[random() % allowed.size()];
      ASSERT_TRUE(matcher.Accept(token).ok());
      for (const char c : vocabulary->bytes(token))
        state = automaton.Step(state, static_cast<uint8_t>(c));
      text += vocabulary->bytes(token);
    }
  }
}

TEST(Mask, AllowsWhatCanBeRead) {
  for (
      const char* schema :
      {"true", R"({"type":"string"})", R"({"type":"string","maxLength":3})",
       R"({"type":"string","minLength":24,"maxLength":26})",
       R"({"type":"string","minLength":300,"maxLength":1000,"pattern":"^[ab1]*$"})",
       R"({"type":"string","pattern":"^(a|ab|\"name\"|é€?)+$"})",
       R"({"type":"string","not":{"enum":["a","ab","name"]}})",
       R"({"enum":["a","ab","aé\n", 1, 123, null, [1, "a"]]})",
       R"({"type":"number","minimum":-2.3,"exclusiveMaximum":123})",
       R"({"type":"integer","multipleOf":23})",
       R"({"type":"array","items":{"type":["string","integer"]},"minItems":2,"maxItems":4})",
       R"({"type":"object","properties":{"a":{"type":"string"},"ab":{"type":"integer"},"name":true},
            "required":["ab"],"additionalProperties":{"type":"string","maxLength":30}})",
       R"({"type":"object","patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false})",
       R"({"x-whitespace":"any","type":"object","properties":{"a":{"type":"array"}},"required":["a"]})",
       R"({"x-whitespace":"none","type":"object","additionalProperties":{"type":"integer"}})",
       R"({"$ref":"#/$defs/tree","$defs":{"tree":{"type":"object","properties":
            {"a":{"type":"array","items":{"$ref":"#/$defs/tree"}}},"additionalProperties":false}}})",
       R"({"anyOf":[{"type":"string","maxLength":2},{"type":"string","pattern":"^a*$"},
            {"type":"string","minLength":5}]})"})
    HoldAgainstAutomaton(schema, 2, 12);
}

TEST(Mask, IsTheSameWhereStatesAreForgottenAllTheTime) {
  HoldAgainstAutomaton(R"({"type":"object","properties":{"a":{"type":"string"}}})", 3, 10,
                       {.max_bytes = 1, .max_mask_bytes = 1});
}

TEST(Matcher, IsAFunctionOfItsTokens) {
  const auto vocabulary = TestVocabulary();
  const auto constraint =
      Constraint::Create(*CompileJsonSchema(R"({"type":"array","items":{"type":"integer"}})"),
                         vocabulary, {.max_bytes = 1});
  const auto id = [](char c) { return 2 + static_cast<int32_t>(static_cast<unsigned char>(c)); };
  Matcher one(constraint), other(constraint);
  for (const char c : std::string_view("[1, 2")) ASSERT_TRUE(one.Accept(id(c)).ok()) << c;
  EXPECT_EQ(one.Accept(id('x')).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(one.Accept(kEnd).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(one.Accept(kSpecial).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(other.Reset(one.tokens()).ok());
  ASSERT_TRUE(other.Accept(id(']')).ok());
  ASSERT_TRUE(one.Accept(id('3')).ok());
  EXPECT_TRUE(*other.MayEnd());
  EXPECT_FALSE(*one.MayEnd());
  ASSERT_TRUE(other.Accept(kEnd).ok());
  EXPECT_TRUE(other.ended());
  EXPECT_FALSE(other.Accept(id(' ')).ok());
  ASSERT_TRUE(other.Reset(one.tokens()).ok());
  EXPECT_FALSE(other.ended());
  EXPECT_FALSE(*other.MayEnd());
}

TEST(Matcher, SaysWhichTokensMustCome) {
  // Bytes alone, so that a forced text has one way of being written.
  TokenVocabularyOptions options;
  options.end_ids = {256};
  for (int byte = 0; byte < 256; ++byte) options.bytes.emplace_back(1, static_cast<char>(byte));
  options.bytes.emplace_back();
  const std::shared_ptr<const TokenVocabulary> vocabulary =
      *TokenVocabulary::Create(std::move(options));
  const auto constraint = Constraint::Create(
      *CompileJsonSchema(
          R"({"x-whitespace":"none","properties":{"kind":{"enum":["abc","abd"]}},"required":["kind"],
             "type":"object","additionalProperties":false})"),
      vocabulary);
  Matcher matcher(constraint);
  const auto text = [](const std::vector<int32_t>& tokens) {
    std::string bytes;
    for (const int32_t token : tokens) bytes += token == 256 ? '.' : static_cast<char>(token);
    return bytes;
  };
  EXPECT_EQ(text(*matcher.ForcedTokens(4)), "{\"ki");
  EXPECT_EQ(text(*matcher.ForcedTokens(100)), "{\"kind\":\"ab");
  for (const char c : std::string_view("{\"kind\":\"abd")) ASSERT_TRUE(matcher.Accept(c).ok());
  EXPECT_EQ(text(*matcher.ForcedTokens(100)), "\"}.");
}

TEST(Matcher, SaysWhichTextMustCome) {
  const auto vocabulary = TestVocabulary();
  const auto constraint = Constraint::Create(
      *CompileJsonSchema(
          R"({"x-whitespace":"none","properties":{"name":{"enum":["abc","abd"]}},"required":["name"],
             "type":"object","additionalProperties":false})"),
      vocabulary);
  Matcher matcher(constraint);
  EXPECT_EQ(*matcher.ForcedText(4), "{\"na");
  EXPECT_EQ(*matcher.ForcedText(100), "{\"name\":\"ab");
  EXPECT_TRUE(matcher.ForcedTokens(100)->empty()) << "several tokens begin it";
  for (const char c : std::string_view("{\"name\":\"ab"))
    ASSERT_TRUE(matcher.Accept(2 + static_cast<unsigned char>(c)).ok());
  EXPECT_EQ(*matcher.ForcedText(100), "") << "c or d";
  ASSERT_TRUE(matcher.Accept(2 + 'd').ok());
  EXPECT_EQ(*matcher.ForcedText(100), "\"}");
  for (const char c : std::string_view("\"}")) ASSERT_TRUE(matcher.Accept(2 + c).ok());
  EXPECT_EQ(*matcher.ForcedText(100), "") << "the text may end";
  ASSERT_TRUE(matcher.Accept(kEnd).ok());
  EXPECT_EQ(*matcher.ForcedText(100), "");
}

TEST(Matcher, TooMuchWorkIsAStatusAndHarmsNobodyElse) {
  const auto constraint =
      Constraint::Create(*CompileJsonSchema(R"({"type":"string","pattern":"a.{300}$"})"),
                         TestVocabulary(), {.max_work = 1000});
  Matcher matcher(constraint);
  absl::Status status;
  for (int i = 0; i < 400 && status.ok(); ++i)
    status = matcher.Accept(2 + (i == 0 ? '"' : i % 3 == 0 ? 'a' : 'b'));
  TokenMask mask(constraint->vocabulary().mask_words());
  if (status.ok()) status = matcher.FillMask(absl::MakeSpan(mask));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  // A text under the same constraint goes on: what was made in vain is forgotten.
  Matcher fresh(constraint);
  EXPECT_TRUE(fresh.Accept(2 + '"').ok());
}

TEST(TokenVocabulary, RefusesEndsThatAreNone) {
  const auto code = [](std::vector<std::string> bytes, std::vector<int32_t> ends) {
    return TokenVocabulary::Create({std::move(bytes), std::move(ends)}).status().code();
  };
  EXPECT_EQ(code({}, {}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({"a", ""}, {0}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({"a", ""}, {2}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code({"a", ""}, {1}), absl::StatusCode::kOk);
}

}  // namespace
}  // namespace sluice
