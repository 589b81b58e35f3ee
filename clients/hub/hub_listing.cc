#include "clients/hub/hub_listing.h"

#include <fnmatch.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMostBytes = uint64_t{1} << 50;
constexpr size_t kMostFiles = 10'000;
constexpr size_t kLongestName = 200;

absl::Status Unlike(const std::string& what) {
  return absl::DataLossError(absl::StrCat("the hub's list of files is not one: ", what));
}

bool IsHex(absl::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
         });
}

std::string TextOf(const Json& object, const char* member) {
  const auto found = object.find(member);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsFileName(absl::string_view name) {
  if (absl::EndsWith(name, ".part") || absl::EndsWith(name, ".parts")) return false;  // ours
  return !name.empty() && name.size() <= kLongestName && name[0] != '.' &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_iscntrl(static_cast<unsigned char>(c)) || c == '\\';
         });
}

absl::StatusOr<HubFile> ParseFile(const Json& entry, const std::string& name) {
  HubFile file{.name = name};
  const auto size = entry.find("size");
  if (size == entry.end() || !size->is_number_unsigned() || size->get<uint64_t>() > kMostBytes) {
    return Unlike(absl::StrCat(name, " has no size"));
  }
  file.size = size->get<uint64_t>();
  if (const auto lfs = entry.find("lfs"); lfs != entry.end() && lfs->is_object()) {
    file.sha256 = TextOf(*lfs, "sha256");
    if (!IsHex(file.sha256, 64)) return Unlike(absl::StrCat("lfs.sha256 of ", name));
  } else if (file.git_id = TextOf(entry, "blobId"); !IsHex(file.git_id, 40)) {
    return Unlike(absl::StrCat("blobId of ", name));
  }
  return file;
}

constexpr const char* kServing[] = {"*.safetensors",
                                    "*.safetensors.index.json",
                                    "config.json",
                                    "generation_config.json",
                                    "tokenizer.json",
                                    "tokenizer_config.json",
                                    "tokenizer.model",
                                    "*.tiktoken",
                                    "special_tokens_map.json",
                                    "added_tokens.json",
                                    "vocab.json",
                                    "vocab.txt",
                                    "merges.txt",
                                    "chat_template.json",
                                    "chat_template.jinja",
                                    "quantize_config.json",
                                    "preprocessor_config.json"};

bool Matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) == 0;
}

bool HasWeights(const HubFile& file) {
  return absl::EndsWith(file.name, ".safetensors") || absl::EndsWith(file.name, ".gguf");
}

bool LooksLikeWeights(const HubFile& file) {
  return HasWeights(file) || absl::EndsWith(file.name, ".bin") ||
         absl::EndsWith(file.name, ".pt") || absl::EndsWith(file.name, ".pth");
}

absl::Status NoWeights(const HubListing& listing) {
  std::vector<std::string> names;
  for (const HubFile& file : listing.files) {
    if (LooksLikeWeights(file) && names.size() < 12) names.push_back(file.name);
  }
  return absl::NotFoundError(absl::StrCat(
      "no weights in safetensors among its files; accepted: *.safetensors, or one *.gguf with "
      "--file; it has ",
      names.empty() ? "no weights" : absl::StrJoin(names, ", ")));
}

}  // namespace

absl::StatusOr<HubListing> ParseHubListing(absl::string_view json) {
  const Json root = Json::parse(json.begin(), json.end(), nullptr, /*allow_exceptions=*/false);
  if (!root.is_object()) return Unlike("no JSON object");
  HubListing listing{.commit = TextOf(root, "sha")};
  if (!IsHex(listing.commit, 40)) return Unlike("sha is no commit");
  const auto entries = root.find("siblings");
  if (entries == root.end() || !entries->is_array() || entries->size() > kMostFiles) {
    return Unlike("siblings");
  }
  std::set<std::string> names;
  for (const Json& entry : *entries) {
    const std::string name = entry.is_object() ? TextOf(entry, "rfilename") : "";
    if (name.empty() || !names.insert(name).second) return Unlike("rfilename");
    if (!IsFileName(name) || absl::StrContains(name, '/')) continue;
    absl::StatusOr<HubFile> file = ParseFile(entry, name);
    if (!file.ok()) return file.status();
    listing.files.push_back(*std::move(file));
  }
  return listing;
}

absl::StatusOr<std::vector<HubFile>> ChooseFiles(const HubListing& listing,
                                                 absl::Span<const std::string> patterns) {
  const std::vector<std::string> serving(std::begin(kServing), std::end(kServing));
  std::vector<HubFile> chosen;
  for (const HubFile& file : listing.files) {
    const auto matches = [&](const std::string& pattern) { return Matches(pattern, file.name); };
    const bool wanted = patterns.empty() ? std::any_of(serving.begin(), serving.end(), matches)
                                         : std::any_of(patterns.begin(), patterns.end(), matches);
    if (wanted) chosen.push_back(file);
  }
  if (std::none_of(chosen.begin(), chosen.end(), HasWeights)) return NoWeights(listing);
  return chosen;
}

}  // namespace sluice
