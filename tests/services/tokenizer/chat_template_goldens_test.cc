// Real chat templates against what Jinja2 rendered them to.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "services/model/json_fields.h"
#include "services/tokenizer/chat_template.h"
#include "services/tokenizer/jinja/error.h"
#include "tests/testing/test_data.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

constexpr jinja::LocalTime kNow{.year = 2025, .month = 7, .day = 10, .hour = 12};

Json ReadJson(const std::string& name) {
  std::ifstream file(*testing::TestData("chat_templates/" + name));
  return Json::parse(file);
}

TokenizerConfig LoadConfig(const std::string& file) {
  const std::string path = *testing::TestData("chat_templates/" + file);
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  TokenizerConfig config;
  if (path.ends_with(".json")) {
    const auto parsed = ParseTokenizerConfig(*text, path);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    config = *parsed;
  } else {
    config.chat_templates["default"] = *text;
  }
  return config;
}

// "UndefinedError: MESSAGE", as the goldens have it.
std::string PythonName(jinja::Error::Kind kind) {
  switch (kind) {
    case jinja::Error::Kind::kUndefined:
      return "UndefinedError";
    case jinja::Error::Kind::kRaised:
      return "TemplateError";
    case jinja::Error::Kind::kType:
      return "TypeError";
    default:
      return "other";
  }
}

void ExpectGolden(const ChatTemplates& templates, const std::string& name, const Json& golden) {
  const auto rendering = templates.Render(name, golden["context"], kNow);
  if (golden.contains("expected")) {
    ASSERT_TRUE(rendering.ok()) << golden["case"] << "\n" << rendering.status();
    EXPECT_EQ(rendering->text, golden["expected"]) << golden["case"];
    return;
  }
  ASSERT_FALSE(rendering.ok()) << golden["case"] << " gives " << rendering->text;
  const std::optional<jinja::Error> error = jinja::ErrorOf(rendering.status());
  ASSERT_TRUE(error.has_value()) << rendering.status();
  EXPECT_EQ(PythonName(error->kind) + ": " + error->message, golden["error"]) << golden["case"];
}

TEST(ChatTemplateGoldens, RenderRealTemplates) {
  SLUICE_SKIP_WITHOUT("chat_templates/index.json");
  const Json index = ReadJson("index.json");
  ASSERT_FALSE(index.empty());
  size_t num_renders = 0;
  for (const Json& entry : index) {
    const std::string id = entry["id"];
    SCOPED_TRACE(id);
    const Json goldens = ReadJson("goldens/" + id + ".json");
    ASSERT_EQ(goldens["strftime_now"], "2025-07-10T12:00:00");
    const ChatTemplates templates(LoadConfig(entry["file"]));
    const std::string name = entry["name"].is_string() ? entry["name"] : "";
    for (const Json& golden : goldens["renders"]) ExpectGolden(templates, name, golden);
    num_renders += goldens["renders"].size();
  }
  RecordProperty("renders", static_cast<int>(num_renders));
  EXPECT_GT(num_renders, index.size());
}

}  // namespace
}  // namespace sluice
