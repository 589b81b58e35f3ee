// `sluice chat-template`, whole commands on files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/clients/cli/fake_pipeline.h"

namespace sluice::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Of the test alone: others run beside it.
std::string Folder() {
  const std::filesystem::path folder =
      std::filesystem::path(::testing::TempDir()) /
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  std::filesystem::create_directories(folder);
  return folder;
}

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = Folder() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

class ChatTemplateTest : public ::testing::Test {
 protected:
  int Run(const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"chat-template"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return fake_.Run(arguments);
  }

  FakeEnvironment fake_;
  const std::string context_ = WriteFile(
      "context.json", R"({"messages": [{"role": "user", "content": "hi"}], "tools": []})");
};

TEST_F(ChatTemplateTest, PrintsTheTextAndNothingMore) {
  const std::string file =
      WriteFile("a.jinja", "{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}|\n\n");
  EXPECT_EQ(Run({"--template", file, "--context", context_}), 0);
  EXPECT_EQ(fake_.out.str(), "user: hi|\n");
  EXPECT_THAT(fake_.err.str(), IsEmpty());
}

TEST_F(ChatTemplateTest, ShowsTheTimeGiven) {
  const std::string file = WriteFile("b.jinja", "{{ strftime_now('%d %b %Y %H:%M') }}");
  EXPECT_EQ(Run({"--template", file, "--context", context_, "--now", "2025-07-10T12:00:00"}), 0);
  EXPECT_EQ(fake_.out.str(), "10 Jul 2025 12:00");
}

TEST_F(ChatTemplateTest, ChoosesFromATokenizersFolder) {
  WriteFile("tokenizer_config.json",
            R"({"bos_token": {"content": "<s>"}, "chat_template": [
               {"name": "default", "template": "D"},
               {"name": "tool_use", "template": "{{ bos_token }}T"}]})");
  EXPECT_EQ(Run({"--tokenizer", Folder(), "--context", context_}), 0);
  EXPECT_EQ(Run({"--tokenizer", Folder(), "--context", context_, "--name", "default"}), 0);
  EXPECT_EQ(fake_.out.str(), "<s>TD");
}

TEST_F(ChatTemplateTest, SaysWhatIsWrongOnStderr) {
  const std::string file = WriteFile("c.jinja", "a\n{{ raise_exception('no users') }}");
  EXPECT_EQ(Run({"--template", file, "--context", context_}), 1);
  EXPECT_THAT(fake_.out.str(), IsEmpty());
  EXPECT_THAT(fake_.err.str(), HasSubstr("c.jinja:2:"));
  EXPECT_THAT(fake_.err.str(), HasSubstr(": no users"));
}

TEST_F(ChatTemplateTest, RefusesWrongFlags) {
  EXPECT_EQ(Run({"--context", context_}), 2);
  EXPECT_EQ(Run({"--template", "x"}), 2);
  EXPECT_EQ(Run({"--template", "x", "--context", context_, "--now", "yesterday"}), 2);
  EXPECT_EQ(Run({"--template", "/nope", "--context", context_}), 1);
  EXPECT_THAT(fake_.err.str(), HasSubstr("/nope"));
}

}  // namespace
}  // namespace sluice::testing
