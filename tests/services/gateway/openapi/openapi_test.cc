#include "services/gateway/openapi/openapi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "services/gateway/json/object_reader.h"
#include "services/gateway/openapi/descriptions.h"
#include "services/gateway/openapi/path_table.h"
#include "services/gateway/openapi/reference.h"
#include "tests/testing/test_data.h"

namespace sluice::gateway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

const ApiPath& PathNamed(absl::string_view name) {
  for (const ApiPath& path : ApiPaths()) {
    if (name == path.path) return path;
  }
  ADD_FAILURE() << name;
  return ApiPaths().front();
}

TEST(ParameterLogTest, NotesWhatReadersAskForAndNothingAfterwards) {
  const json body = {{"list", json::array({json::object()})}};
  ParameterNotes notes;
  {
    ParameterLog log;
    ObjectReader reader(body);
    reader.Integer("count", 1, 16);
    reader.PassOver({"hint"});
    reader.Refuse({"audio"}, "no sound here");
    reader.Fail("count", "missing_required_parameter", "Missing.");
    ObjectReader element(body["list"][0], "list[0]");
    element.String("name");
    notes = log.notes();
  }
  ObjectReader(body).Bool("later");
  EXPECT_EQ(ParameterLog::Current(), nullptr);
  ASSERT_EQ(notes.size(), 4);
  EXPECT_EQ(notes["count"].type, "integer");
  EXPECT_EQ(notes["count"].max, 16);
  EXPECT_TRUE(notes["count"].required);
  EXPECT_EQ(notes["hint"].use, ParameterUse::kIgnored);
  EXPECT_EQ(notes["audio"].why, "no sound here");
  EXPECT_EQ(notes["list[].name"].type, "string");
}

TEST(PathTableTest, KnowsParametersAsTheChecksDo) {
  ParameterNotes chat = ParametersOf(PathNamed("/v1/chat/completions"));
  EXPECT_TRUE(chat["messages"].required);
  EXPECT_TRUE(chat["messages[].role"].required);
  EXPECT_EQ(chat["n"].max, 16);
  EXPECT_EQ(chat["service_tier"].accepted, "'auto', 'default', 'flex', 'priority'");
  EXPECT_EQ(chat["audio"].use, ParameterUse::kRefused);
  EXPECT_EQ(chat["user"].use, ParameterUse::kIgnored);
  EXPECT_EQ(chat["stream_options.include_usage"].type, "boolean");
  EXPECT_EQ(chat["tools[].function.name"].type, "string");
  EXPECT_TRUE(ParametersOf(PathNamed("/v1/messages"))["max_tokens"].required);
  EXPECT_TRUE(ParametersOf(PathNamed("/detokenize"))["tokens"].required);
}

// Every parameter of the document is taken by the check, and one that is not there is refused.
TEST(PathTableTest, ChecksRefuseWhatIsNotThere) {
  for (const ApiPath& path : ApiPaths()) {
    if (path.check == nullptr) continue;
    const json body = {{"not_a_parameter", 1}};
    EXPECT_FALSE(path.check(body, body.dump()).ok()) << path.path;
    EXPECT_EQ(ParametersOf(path).count("not_a_parameter"), 0) << path.path;
  }
}

TEST(DescriptionsTest, EveryParameterOfTheFirstLevelHasOne) {
  for (const ApiPath& path : ApiPaths()) {
    for (const auto& [name, note] : ParametersOf(path)) {
      if (note.use != ParameterUse::kRead || absl::StrContains(name, ".")) continue;
      EXPECT_FALSE(DescriptionOf(name).empty()) << path.path << ": " << name;
    }
  }
}

TEST(OpenApiTest, HasSchemasOfBodies) {
  const json document = OpenApiDocument();
  const json& schema = document["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]
                               ["application/json"]["schema"];
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["required"], json::array({"messages"}));
  const json& members = schema["properties"];
  EXPECT_EQ(members["n"]["minimum"], 1);
  EXPECT_EQ(members["stream_options"]["properties"]["include_usage"]["type"], "boolean");
  EXPECT_EQ(members["messages"]["items"]["required"], json::array({"role"}));
  EXPECT_FALSE(members.contains("audio"));
  const json& upload = document["paths"]["/v1/files"]["post"]["requestBody"]["content"];
  EXPECT_EQ(upload["multipart/form-data"]["schema"]["required"], json::array({"file", "purpose"}));
  const json& file = document["paths"]["/v1/files/{file_id}"]["delete"]["parameters"][0];
  EXPECT_EQ(file["name"], "file_id");
  EXPECT_TRUE(document["paths"]["/v1/models"].contains("get"));
}

TEST(ReferenceTest, IsWhatTheDocumentSays) {
  std::ostringstream text;
  text << std::ifstream(testing::ProjectPath("docs/http_api.md")).rdbuf();
  EXPECT_EQ(text.str(), HttpApiReference()) << "docs/http_api.md is to be:\n" << HttpApiReference();
}

}  // namespace
}  // namespace sluice::gateway
