#include "services/model/digest/model_digest.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "kernels/usable_cpus.h"
#include "services/model/checkpoint.h"
#include "services/model/digest/digest_cache.h"
#include "services/model/digest/file_digest.h"
#include "services/model/gguf_model.h"
#include "services/model/identity.h"
#include "services/model/progress.h"

namespace sluice {
namespace {

// Smaller files are read again sooner than looked up.
constexpr int64_t kLeastKeptBytes = int64_t{64} << 20;

constexpr const char* kTokenizerFiles[] = {
    "added_tokens.json",       "chat_template.jinja",  "sentencepiece.bpe.model",
    "special_tokens_map.json", "spiece.model",         "tokenizer.json",
    "tokenizer.model",         "tokenizer_config.json"};

absl::StatusOr<struct stat> About(const std::string& path) {
  struct stat about = {};
  if (stat(path.c_str(), &about) == 0) return about;
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
}

std::string NameOf(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

// Of files in this order, by name and contents.
absl::StatusOr<std::string> DigestOf(const std::vector<std::string>& paths,
                                     const DigestCache& cache, Progress& progress) {
  std::string all;
  for (const std::string& path : paths) {
    const absl::StatusOr<struct stat> about = About(path);
    if (!about.ok()) return about.status();
    std::optional<std::string> known;
    if (about->st_size >= kLeastKeptBytes) known = cache.Find(*about);
    if (!known.has_value()) {
      progress.Expect(about->st_size);
      absl::StatusOr<std::string> read =
          FileDigest(path, UsableCpus(), [&progress](uint64_t bytes) { progress.Add(bytes); });
      if (!read.ok()) return read.status();
      known = *std::move(read);
      if (about->st_size >= kLeastKeptBytes) cache.Keep(*about, *known);
    }
    absl::StrAppend(&all, *known, "  ", NameOf(path), "\n");
  }
  return TextDigest(all);
}

// Of all values of the metadata that are about tokens.
absl::StatusOr<std::string> GgufTokenizerDigest(const std::string& path) {
  constexpr char kPrefix[] = "tokenizer.";
  const absl::StatusOr<GgufModel> model = GgufModel::Open(path);
  if (!model.ok()) return model.status();
  std::string all;
  for (const auto& [key, value] : model->metadata()) {
    if (!absl::StartsWith(key, kPrefix)) continue;
    const absl::string_view bytes(reinterpret_cast<const char*>(value.bytes().data()),
                                  value.bytes().size());
    absl::StrAppend(&all, key, " ", static_cast<int>(value.type()), " ", bytes.size(), "\n", bytes);
  }
  return all.empty() ? "" : TextDigest(all);
}

}  // namespace

absl::StatusOr<std::string> WeightsDigest(const std::string& folder) {
  // The services of one process ask at the same time: the first one reads, the others look it up.
  static absl::Mutex mutex(absl::kConstInit);
  const absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder);
  if (!checkpoint.ok()) return checkpoint.status();
  std::vector<std::string> paths;
  for (const TensorFile& file : checkpoint->files()) paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());
  const absl::MutexLock lock(&mutex);
  Progress progress(
      absl::StrCat("reading the weights of ", ModelName(folder), " once to know them"));
  return DigestOf(paths, DigestCache(DigestCache::DefaultFolder()), progress);
}

absl::StatusOr<std::string> TokenizerDigest(const std::string& folder) {
  if (IsGgufPath(folder)) return GgufTokenizerDigest(folder);
  std::vector<std::string> paths;
  std::error_code error;
  for (const char* name : kTokenizerFiles) {
    const std::string path = absl::StrCat(folder, "/", name);
    if (std::filesystem::exists(path, error)) paths.push_back(path);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (absl::EndsWith(entry.path().native(), ".tiktoken")) paths.push_back(entry.path());
  }
  if (paths.empty()) return "";
  std::sort(paths.begin(), paths.end());
  Progress progress(absl::StrCat("reading the tokenizer of ", ModelName(folder)));
  return DigestOf(paths, DigestCache(""), progress);
}

}  // namespace sluice
