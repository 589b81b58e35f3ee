#include "kernels/cuda/ranks/nccl_library.h"

#include <dlfcn.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace sluice::cuda {
namespace {

constexpr int kLeastVersion = NCCL_VERSION(2, 18, 0);

// The loader looks for names in its own places and those of LD_LIBRARY_PATH.
constexpr const char* kNames[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2"};

absl::StatusOr<void*> Load() {
  std::string tried;
  for (const char* name : kNames) {
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return library;
    const char* const error = dlerror();
    absl::StrAppend(&tried, tried.empty() ? "" : "; ", error == nullptr ? name : error);
  }
  return absl::NotFoundError(
      absl::StrCat("NCCL is missing: ", tried,
                   " (a library of version 2 where LD_LIBRARY_PATH names its folder)"));
}

class Symbols {
 public:
  explicit Symbols(void* library) : library_(library) {}

  template <class Function>
  void Find(const char* name, Function& into) {
    into = reinterpret_cast<Function>(dlsym(library_, name));
    if (into == nullptr && missing_.empty()) missing_ = name;
  }

  const std::string& missing() const { return missing_; }

 private:
  void* const library_;
  std::string missing_;
};

absl::StatusOr<NcclLibrary> Open() {
  const absl::StatusOr<void*> library = Load();
  if (!library.ok()) return library.status();
  Symbols symbols(*library);
  NcclLibrary nccl{};
  symbols.Find("ncclGetVersion", nccl.get_version);
  symbols.Find("ncclGetUniqueId", nccl.get_unique_id);
  symbols.Find("ncclCommInitRankConfig", nccl.init_rank);
  symbols.Find("ncclCommGetAsyncError", nccl.get_async_error);
  symbols.Find("ncclCommAbort", nccl.abort);
  symbols.Find("ncclAllGather", nccl.all_gather);
  symbols.Find("ncclSend", nccl.send);
  symbols.Find("ncclRecv", nccl.receive);
  symbols.Find("ncclGroupStart", nccl.group_start);
  symbols.Find("ncclGroupEnd", nccl.group_end);
  symbols.Find("ncclGetErrorString", nccl.error_text);
  symbols.Find("ncclGetLastError", nccl.last_error);
  if (!symbols.missing().empty()) {
    return absl::FailedPreconditionError(absl::StrCat("NCCL has no ", symbols.missing()));
  }
  int version = 0;
  if (nccl.get_version(&version) != ncclSuccess || version < kLeastVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("NCCL is of version ", version, "; needed: ", kLeastVersion, " or later"));
  }
  return nccl;
}

}  // namespace

const absl::StatusOr<NcclLibrary>& NcclLibrary::Get() {
  static const auto& library = *new absl::StatusOr<NcclLibrary>(Open());
  return library;
}

}  // namespace sluice::cuda
