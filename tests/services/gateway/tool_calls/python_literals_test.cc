// Python's literals as JSON.
#include "services/gateway/tool_calls/python_literals.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>

#include "services/gateway/tool_calls/python_calls.h"

namespace sluice::gateway {
namespace {

// Of a text that is one literal; "none" where it is not.
std::string LiteralsJson(const std::string& literal) {
  PythonReader reader(literal);
  const std::optional<std::string> value = reader.TakeValue();
  reader.SkipSpace();
  return value.has_value() && reader.rest().empty() ? *value : "none";
}

TEST(PythonLiteralsTest, Numbers) {
  const std::pair<const char*, const char*> cases[] = {
      {"1", "1"},
      {"+1", "1"},
      {"-1", "-1"},
      {".5", "0.5"},
      {"-.5", "-0.5"},
      {"5.", "5.0"},
      {"5.e3", "5.0e3"},
      {"1.50", "1.50"},
      {"1E5", "1E5"},
      {"1e-05", "1e-05"},
      {"0x10", "16"},
      {"-0xFF", "-255"},
      {"0o17", "15"},
      {"0b101", "5"},
      {"0xffffffffffffffffffff", "1208925819614629174706175"},
      {"1_000", "1000"},
      {"1_000.5_0", "1000.50"},
      {"0x_ff", "255"},
      {"10000000000000000000000", "10000000000000000000000"},
      {"0", "0"},
      {"00", "0"},
      {"00.5", "0.5"}};
  for (const auto& [python, json] : cases) EXPECT_EQ(LiteralsJson(python), json) << python;
  for (const char* other : {"1__0", "_1", "1_", "007", "0x", "0xg", "1e", "--1", ".", "1.2.3", "1j",
                            "e5", "x", "", "+", "1a"}) {
    EXPECT_EQ(LiteralsJson(other), "none") << other;
  }
  EXPECT_EQ(LiteralsJson("0x" + std::string(80, 'f')), "none");
}

TEST(PythonLiteralsTest, StringsAndTheirEscapes) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("a'b")", R"("a'b")"},
      {R"('a"b')", R"("a\"b")"},
      {R"("\u00e9 \x41 \U0001F600 \101 \0 \a")", "\"é A \U0001F600 A \\u0000 \\u0007\""},
      {R"("\q \d \.")", R"("\\q \\d \\.")"},
      {R"("\\n \n")", R"("\\n \n")"},
      {"\"a\\\nb\"", R"("ab")"},
      {R"("\ud83d\ude00")", "\"\U0001F600\""},
      {R"("\ud83d!")", "\"\uFFFD!\""},
      {R"("\x4 \u12")", R"("\\x4 \\u12")"},
      {"\"\"\"two\nlines, \"quoted\" \"\"\"", R"("two\nlines, \"quoted\" ")"},
      {"'''it's'''", R"("it's")"},
      {R"(r"\d+\"")", R"("\\d+\\\"")"},
      {R"(u"x")", R"("x")"},
      {R"("a" 'b' r"\c")", R"("ab\\c")"},
      {R"("")", R"("")"},
      {R"('' 'x')", R"("x")"}};
  for (const auto& [python, json] : cases) EXPECT_EQ(LiteralsJson(python), json) << python;
  for (const char* other : {R"("open)", R"("""open")", R"(b"x")", R"(f"{x}")", R"("\)"}) {
    EXPECT_EQ(LiteralsJson(other), "none") << other;
  }
}

TEST(PythonLiteralsTest, Containers) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1, 'a', None,]", R"([1,"a",null])"},
      {"(1, 2)", "[1,2]"},
      {"(1,)", "[1]"},
      {"(1)", "1"},
      {"()", "[]"},
      {"('a'\n 'b')", R"("ab")"},
      {"{'z': 1, 'a': 2}", R"({"z":1,"a":2})"},
      {"{1: 'x', 2.5: 'y', True: 'z', None: 0}", R"({"1":"x","2.5":"y","true":"z","null":0})"},
      {"{}", "{}"},
      {"[1, # one\n 2]", "[1,2]"}};
  for (const auto& [python, json] : cases) EXPECT_EQ(LiteralsJson(python), json) << python;
  for (const char* other : {"[1", "[1 2]", "{'a'}", "{[1]: 2}", "(", "{1: }"}) {
    EXPECT_EQ(LiteralsJson(other), "none") << other;
  }
  EXPECT_EQ(LiteralsJson(std::string(100, '[') + std::string(100, ']')), "none");
}

TEST(PythonCallsTest, KeepTheOrderAndSpellingOfArguments) {
  const auto calls = ParsePythonCalls("[f(z=1.50, a=10000000000000000000000, m={'y': 1, 'b': 2})]");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].arguments, R"({"z":1.50,"a":10000000000000000000000,"m":{"y":1,"b":2}})");
}

TEST(PythonCallsTest, ArePrinted) {
  const auto calls = ParsePythonCalls(R"(print(f(a="x"), g()))");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0], (ToolCall{"f", R"({"a":"x"})"}));
  EXPECT_EQ(calls[1], (ToolCall{"g", "{}"}));
  EXPECT_EQ(ParsePythonCalls("print(text='x')"),
            (std::vector<ToolCall>{{"print", R"({"text":"x"})"}}));
  EXPECT_TRUE(ParsePythonCalls("print('x')").empty());
}

}  // namespace
}  // namespace sluice::gateway
