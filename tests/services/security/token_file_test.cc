#include "services/security/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// `printf %s alpha | sha256sum`, and of "beta".
constexpr char kAlpha[] = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";
constexpr char kBeta[] = "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753";

class TokenFileTest : public ::testing::Test {
 protected:
  TokenFileTest() : folder_(absl::StrCat(::testing::TempDir(), "/tokens-", getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~TokenFileTest() override { std::filesystem::remove_all(folder_); }

  // As a Secret changes: the name leads to another file.
  void Write(const std::string& text) {
    const std::string fresh = absl::StrCat(folder_, "/", ++writes_);
    std::ofstream(fresh) << text;
    std::filesystem::remove(path_);
    std::filesystem::create_symlink(fresh, path_);
  }

  std::unique_ptr<TokenFile> Open() {
    auto file = TokenFile::Open(path_, [this](const absl::Status& fault) {
      faults_.push_back(std::string(fault.message()));
    });
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  const std::string folder_;
  const std::string path_ = folder_ + "/tokens";
  int writes_ = 0;
  std::vector<std::string> faults_;
};

TEST_F(TokenFileTest, FindsWhoHoldsAToken) {
  Write(absl::StrCat("# hash tenant\n", kAlpha, " search\n\n  ", kBeta, "\tlab # a comment\n"));
  const auto file = Open();
  const auto alpha = file->Find("alpha");
  ASSERT_TRUE(alpha.ok()) << alpha.status();
  EXPECT_EQ(alpha->tenant, "search");
  const auto beta = file->Find("beta");
  ASSERT_TRUE(beta.ok()) << beta.status();
  EXPECT_EQ(beta->tenant, "lab");
  for (const char* token : {"", "alph", "alphaa", kAlpha}) {
    EXPECT_EQ(file->Find(token).status().code(), absl::StatusCode::kUnauthenticated) << token;
  }
}

TEST_F(TokenFileTest, RefusesATokenFromTheMomentItIsTakenOut) {
  Write(absl::StrCat(kAlpha, " a\n", kBeta, " b\n"));
  const auto file = Open();
  EXPECT_TRUE(file->Find("alpha").ok());
  Write(absl::StrCat(kBeta, " b\n"));
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_TRUE(file->Find("beta").ok());
  Write("");
  EXPECT_FALSE(file->Find("beta").ok());
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TokenFileTest, KeepsItsTokensWhereTheFileIsAtFaultAndSaysSoOnce) {
  Write(absl::StrCat(kAlpha, " a\n"));
  const auto file = Open();
  Write("not a hash\n");
  EXPECT_TRUE(file->Find("alpha").ok());
  EXPECT_TRUE(file->Find("alpha").ok());
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("line 1: ")));
  std::filesystem::remove(path_);
  EXPECT_TRUE(file->Find("alpha").ok());
  EXPECT_EQ(faults_.size(), 2u);
  Write(absl::StrCat(kBeta, " b\n"));
  EXPECT_FALSE(file->Find("alpha").ok());
}

TEST_F(TokenFileTest, NamesWhatIsWrongAtStart) {
  const auto open = [this] { return TokenFile::Open(path_, nullptr).status(); };
  EXPECT_EQ(open().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(open().message()), HasSubstr(path_));
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {absl::StrCat(kAlpha, "\n"), "line 1: expected HASH TENANT"},
           {absl::StrCat("\n", kAlpha, "0 a\n"), "line 2: the hash is not the 64"},
           {absl::StrCat(std::string(kAlpha, 63), "g a\n"), "line 1: the hash is not the 64"},
           {absl::StrCat(kAlpha, " a/b\n"), "line 1: the tenant is not"},
           {absl::StrCat(kAlpha, " a x\n"), "line 1: expected HASH TENANT and nothing else"}}) {
    Write(text);
    EXPECT_EQ(open().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(open().message()), HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice
