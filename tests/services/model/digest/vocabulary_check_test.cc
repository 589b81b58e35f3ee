#include "services/model/digest/vocabulary_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/services/model/model_folder.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempFolder;

TEST(SameVocabulary, IsSaidByTheFileThatTokensComeFrom) {
  const TempFolder model, draft;
  for (const TempFolder* folder : {&model, &draft}) {
    folder->Write("tokenizer.json", "{\"same\": 1}");
  }
  model.Write("chat_template.jinja", "how people talk to this one");
  draft.Write("tokenizer_config.json", "{}");
  EXPECT_TRUE(CheckSameVocabulary({model.path(), 100}, {draft.path(), 100}).ok());
  draft.Write("tokenizer.json", "{\"same\": 2}");
  const absl::Status status = CheckSameVocabulary({model.path(), 100}, {draft.path(), 100});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(),
              AllOf(HasSubstr(draft.path() + " has other tokens than " + model.path()),
                    HasSubstr("tokenizer.json differ")));
}

TEST(SameVocabulary, HasOneSize) {
  const TempFolder model, draft;
  const absl::Status status = CheckSameVocabulary({model.path(), 100}, {draft.path(), 99});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.ToString(), HasSubstr("99 against 100 in the vocabulary"));
}

TEST(SameVocabulary, IsTakenForTheSameWhereFilesCannotTell) {
  const TempFolder model, draft;
  EXPECT_TRUE(CheckSameVocabulary({model.path(), 100}, {draft.path(), 100}).ok());
  model.Write("tokenizer.json", "{}");
  EXPECT_TRUE(CheckSameVocabulary({model.path(), 100}, {draft.path(), 100}).ok());
  draft.Write("tokenizer.model", "others");
  EXPECT_TRUE(CheckSameVocabulary({model.path(), 100}, {draft.path(), 100}).ok());
}

}  // namespace
}  // namespace sluice
