#include "services/gateway/batches/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::gateway {
namespace {

using ::testing::HasSubstr;

constexpr char kType[] = "multipart/form-data; boundary=\"b 1\"";

std::string Part(const std::string& disposition, const std::string& content) {
  return absl::StrCat("--b 1\r\nContent-Disposition: form-data; ", disposition,
                      "\r\nContent-Type: text/plain\r\n\r\n", content, "\r\n");
}

TEST(MultipartTest, ReadsFieldsAndFiles) {
  const std::string body =
      absl::StrCat("ignored\r\n", Part("name=\"purpose\"", "batch"),
                   Part("name=file; filename=\"a \\\"b\\\"; c.jsonl\"", "{}\r\n--b 2\r\n{}\n"),
                   Part("name=\"none\"", ""), "--b 1--\r\n");
  const auto form = ReadForm(kType, body);
  ASSERT_TRUE(form.ok()) << form.status();
  ASSERT_EQ(form->size(), 3);
  EXPECT_EQ((*form)[0].name, "purpose");
  EXPECT_EQ((*form)[0].content, "batch");
  EXPECT_EQ((*form)[1].filename, "a \"b\"; c.jsonl");
  EXPECT_EQ((*form)[1].content, "{}\r\n--b 2\r\n{}\n");
  EXPECT_EQ((*form)[2].content, "");
}

TEST(MultipartTest, RefusesWhatIsNone) {
  const std::string good = Part("name=\"a\"", "1");
  EXPECT_THAT(std::string(ReadForm("application/json", good).status().message()),
              HasSubstr("multipart/form-data"));
  EXPECT_FALSE(ReadForm("multipart/form-data", good).ok());
  EXPECT_FALSE(ReadForm("multipart/form-data; boundary=", good).ok());
  EXPECT_FALSE(ReadForm(kType, "").ok());
  EXPECT_FALSE(ReadForm(kType, good).ok()) << "breaks off";
  EXPECT_FALSE(ReadForm(kType, absl::StrCat(Part("filename=\"a\"", "1"), "--b 1--")).ok());
  EXPECT_FALSE(ReadForm(kType, "--b 1\r\nno end of headers\r\n--b 1--").ok());
  EXPECT_TRUE(ReadForm(kType, "--b 1--\r\n").ok());
}

TEST(MultipartTest, EndsForAnyBody) {
  const std::string body =
      absl::StrCat(Part("name=\"a\"; filename=\"", "1"), Part("name=", "2"), "--b 1--");
  for (size_t begin = 0; begin < body.size(); ++begin) {
    for (size_t size = 0; size <= body.size() - begin; size += 7) {
      ReadForm(kType, body.substr(begin, size)).status().IgnoreError();
      ReadForm(body.substr(begin, size), body).status().IgnoreError();
    }
  }
}

}  // namespace
}  // namespace sluice::gateway
