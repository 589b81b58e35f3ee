// Templates and expressions against what Jinja2 itself makes of them: tests/golden/jinja.json, see
// tests/golden/make_jinja_goldens.py.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "services/tokenizer/jinja/template.h"
#include "tests/testing/test_data.h"

namespace sluice::jinja {
namespace {

using Json = nlohmann::ordered_json;

const char* KindName(Error::Kind kind) {
  switch (kind) {
    case Error::Kind::kSyntax:
      return "syntax";
    case Error::Kind::kUndefined:
      return "undefined";
    case Error::Kind::kRaised:
      return "raised";
    case Error::Kind::kType:
      return "type";
    case Error::Kind::kValue:
      return "value";
    case Error::Kind::kRuntime:
      return "runtime";
    case Error::Kind::kSecurity:
      return "security";
    case Error::Kind::kLimit:
      return "limit";
  }
  return "";
}

absl::StatusOr<Rendering> Render(const Json& golden, const Json& context) {
  const auto made = Template::Compile(golden["template"].get<std::string>(), "golden");
  if (!made.ok()) return made.status();
  Context variables;
  variables.untrusted = &context;
  variables.now = {.year = 2025, .month = 7, .day = 10, .hour = 12};
  return (*made)->Render(variables);
}

// Messages are Python's where it says what is wrong; those that only name parameters are not.
void ExpectError(const Json& golden, const absl::Status& status) {
  const std::optional<Error> error = ErrorOf(status);
  ASSERT_TRUE(error.has_value()) << golden["template"] << "\n" << status;
  EXPECT_EQ(KindName(error->kind), golden["error"]) << golden["template"] << "\n" << status;
  if (golden.contains("message")) {
    EXPECT_EQ(error->message, golden["message"]) << golden["template"];
  }
  if (golden.contains("line")) {
    EXPECT_EQ(error->place.line, golden["line"]) << golden["template"] << "\n" << status;
  }
}

TEST(TemplateGoldens, RenderAsJinjaDoes) {
  std::ifstream file(testing::ProjectPath("tests/golden/jinja.json"));
  const Json goldens = Json::parse(file);
  ASSERT_GT(goldens["cases"].size(), 500);
  for (const Json& golden : goldens["cases"]) {
    const absl::StatusOr<Rendering> rendering = Render(golden, goldens["context"]);
    if (golden.contains("error")) {
      EXPECT_FALSE(rendering.ok()) << golden["template"] << " gives " << rendering->text;
      if (!rendering.ok()) ExpectError(golden, rendering.status());
      continue;
    }
    EXPECT_TRUE(rendering.ok()) << golden["template"] << "\n" << rendering.status();
    if (rendering.ok()) {
      EXPECT_EQ(rendering->text, golden["expected"]) << golden["template"];
    }
  }
}

}  // namespace
}  // namespace sluice::jinja
