#include "services/security/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
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
constexpr char kAlphaToken[] = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";
constexpr char kBeta[] = "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753";

constexpr char kEmpty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

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
  Write(
      absl::StrCat("# hash tenant\n", kAlphaToken, " search\n\n  ", kBeta, "\tlab # a comment\n"));
  const auto file = Open();
  const auto alpha = file->Find("alpha");
  ASSERT_TRUE(alpha.ok()) << alpha.status();
  EXPECT_EQ(alpha->tenant, "search");
  const auto beta = file->Find("beta");
  ASSERT_TRUE(beta.ok()) << beta.status();
  EXPECT_EQ(beta->tenant, "lab");
  for (const char* token : {"", "alph", "alphaa", kAlphaToken}) {
    EXPECT_EQ(file->Find(token).status().code(), absl::StatusCode::kUnauthenticated) << token;
  }
}

TEST_F(TokenFileTest, RefusesATokenFromTheMomentItIsTakenOut) {
  Write(absl::StrCat(kAlphaToken, " a\n", kBeta, " b\n"));
  const auto file = Open();
  EXPECT_TRUE(file->Find("alpha").ok());
  Write(absl::StrCat(kBeta, " b\n"));
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_TRUE(file->Find("beta").ok());
  Write("");
  EXPECT_FALSE(file->Find("beta").ok());
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TokenFileTest, ASlipInOneLineRevivesNoTokenOfAnother) {
  Write(absl::StrCat(kAlphaToken, " a\n", kBeta, " b\n"));
  const auto file = Open();
  // The line of alpha was taken out, and the new one is wrong.
  Write(absl::StrCat("not a hash\n", kBeta, " b\n"));
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_TRUE(file->Find("beta").ok());
  EXPECT_THAT(faults_, ElementsAre(::testing::AllOf(HasSubstr("line 1: expected HASH TENANT"),
                                                    HasSubstr("; 1 tokens are accepted"))));
  Write(absl::StrCat(kAlphaToken, " a\n"));
  EXPECT_TRUE(file->Find("alpha").ok());
  EXPECT_EQ(faults_.size(), 1u);
}

TEST_F(TokenFileTest, AFileThatIsGoneHoldsNoTokens) {
  Write(absl::StrCat(kAlphaToken, " a\n"));
  const auto file = Open();
  std::filesystem::remove(path_);
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_EQ(faults_.size(), 1u);
  Write(absl::StrCat(kAlphaToken, " a\n"));
  EXPECT_TRUE(file->Find("alpha").ok());
}

TEST_F(TokenFileTest, IsNotHeldUpByAFifoInItsPlace) {
  Write(absl::StrCat(kAlphaToken, " a\n"));
  const auto file = Open();
  std::filesystem::remove(path_);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("it is no regular file")));
  EXPECT_EQ(TokenFile::Open(path_, nullptr).status().code(), absl::StatusCode::kInvalidArgument);
}

// Of two calls, the second finds a descriptor.
TEST_F(TokenFileTest, KeepsItsTokensWhileItLacksADescriptorToReadWith) {
  Write(absl::StrCat(kAlphaToken, " a\n"));
  const auto file = Open();
  Write(absl::StrCat(kBeta, " b\n"));
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none = {.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const bool known = file->Find("alpha").ok();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_TRUE(known);
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_TRUE(file->Find("beta").ok());
  EXPECT_THAT(faults_, IsEmpty());
}

TEST_F(TokenFileTest, TheEmptyTokenIsNobodys) {
  Write(absl::StrCat(kEmpty, " a\n"));
  EXPECT_THAT(std::string(TokenFile::Open(path_, nullptr).status().message()),
              HasSubstr("line 1: the hash is that of the empty token"));
  Write(absl::StrCat(kAlphaToken, " a\n"));
  const auto file = Open();
  Write(absl::StrCat(kEmpty, " a\n", kAlphaToken, " a\n"));
  EXPECT_EQ(file->Find("").status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(file->Find("alpha").ok());
}

TEST_F(TokenFileTest, NamesTheFirstOfManyFaults) {
  Write(absl::StrCat(kAlphaToken, " a\n"));
  const auto file = Open();
  std::string text;
  for (int i = 0; i < 20; ++i) text += "x\n";
  Write(text);
  EXPECT_FALSE(file->Find("alpha").ok());
  EXPECT_THAT(faults_, ElementsAre(HasSubstr("line 8: expected HASH TENANT; and 12 more")));
}

TEST_F(TokenFileTest, NamesWhatIsWrongAtStart) {
  const auto open = [this] { return TokenFile::Open(path_, nullptr).status(); };
  EXPECT_EQ(open().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(open().message()), HasSubstr(path_));
  for (const auto& [text, part] : std::vector<std::pair<std::string, std::string>>{
           {absl::StrCat(kAlphaToken, "\n"), "line 1: expected HASH TENANT"},
           {absl::StrCat("\n", kAlphaToken, "0 a\n"), "line 2: the hash is not the 64"},
           {absl::StrCat(std::string(kAlphaToken, 63), "g a\n"), "line 1: the hash is not the 64"},
           {absl::StrCat(kAlphaToken, " a/b\n"), "line 1: the tenant is not"},
           {absl::StrCat(kAlphaToken, " a x\n"),
            "line 1: expected HASH TENANT and nothing else"}}) {
    Write(text);
    EXPECT_EQ(open().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(open().message()), HasSubstr(part));
  }
}

TEST_F(TokenFileTest, AppendsLinesThatItReads) {
  EXPECT_EQ(TokenLine("alpha", "search").value(), absl::StrCat(kAlphaToken, " search"));
  EXPECT_EQ(TokenLine("alpha", "two words").status().code(), absl::StatusCode::kInvalidArgument);
  const std::string path = absl::StrCat(folder_, "/made");
  ASSERT_TRUE(AppendTokenLine(path, absl::StrCat(kAlphaToken, " search")).ok());
  struct stat info = {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  // A line before it that lacks its end, as an editor may leave it.
  std::ofstream(path, std::ios::app) << "# more";
  ASSERT_TRUE(AppendTokenLine(path, absl::StrCat(kBeta, " web")).ok());
  const auto file = TokenFile::Open(path, nullptr);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->Find("alpha").value().tenant, "search");
  EXPECT_EQ((*file)->Find("beta").value().tenant, "web");
  EXPECT_THAT(std::string(AppendTokenLine(folder_ + "/none/made", "x").message()),
              HasSubstr("/none/made"));
}

}  // namespace
}  // namespace sluice
