#include "tests/kernels/testing/guarded_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/check.h"

namespace sluice {
namespace {

// Of addresses; pages come when they are touched.
constexpr size_t kAreaBytes = size_t{1} << 36;

// At least one, so that no two buffers have one address.
size_t WholePages(size_t size_bytes) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return (std::max<size_t>(1, size_bytes) + page - 1) / page * page;
}

}  // namespace

class GuardedMemory::GuardedBuffer final : public Buffer {
 public:
  GuardedBuffer(std::shared_ptr<GuardedMemory> owner, std::byte* data, size_t size)
      : owner_(std::move(owner)), data_(data), size_(size) {}
  ~GuardedBuffer() override { owner_->Free(data_); }

  void* data() override { return data_; }
  size_t size_bytes() const override { return size_; }

 private:
  const std::shared_ptr<GuardedMemory> owner_;
  std::byte* const data_;
  const size_t size_;
};

std::shared_ptr<GuardedMemory> GuardedMemory::Create() {
  void* area =
      mmap(nullptr, kAreaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  SLUICE_CHECK(area != MAP_FAILED);
  return std::shared_ptr<GuardedMemory>(new GuardedMemory(static_cast<std::byte*>(area)));
}

GuardedMemory::~GuardedMemory() { munmap(area_, kAreaBytes); }

absl::StatusOr<std::byte*> GuardedMemory::TakeAddresses(size_t size_bytes) {
  if (size_bytes > kAreaBytes || kAreaBytes - used_ < WholePages(size_bytes)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the device has no ", size_bytes, " bytes of memory left"));
  }
  SLUICE_CHECK(!is_open_);
  std::byte* const data = area_ + used_;
  used_ += WholePages(size_bytes);
  return data;
}

absl::StatusOr<std::unique_ptr<Buffer>> GuardedMemory::Allocate(size_t size_bytes) {
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<std::byte*> data = TakeAddresses(size_bytes);
  if (!data.ok()) return data.status();
  buffers_[*data] = WholePages(size_bytes);
  return std::make_unique<GuardedBuffer>(shared_from_this(), *data, size_bytes);
}

absl::StatusOr<std::unique_ptr<Buffer>> GuardedMemory::Map(int fd, size_t size_bytes) {
  absl::MutexLock lock(&mutex_);
  const absl::StatusOr<std::byte*> data = TakeAddresses(size_bytes);
  if (!data.ok()) return data.status();
  const size_t bytes = WholePages(size_bytes);
  if (mmap(*data, bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
    return absl::UnavailableError(absl::StrCat(size_bytes, " shared bytes can't be mapped"));
  }
  buffers_[*data] = bytes;
  return std::make_unique<GuardedBuffer>(shared_from_this(), *data, size_bytes);
}

// Its pages go back to the system or to the others that have them, its address to nobody.
void GuardedMemory::Free(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  const auto buffer = buffers_.find(data);
  SLUICE_CHECK(buffer != buffers_.end());
  SLUICE_CHECK(mmap(data, buffer->second, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == data);
  buffers_.erase(buffer);
}

void GuardedMemory::Protect(bool protect) {
  absl::MutexLock lock(&mutex_);
  SLUICE_CHECK(is_open_ == protect);
  is_open_ = !protect;
  const int protection = protect ? PROT_NONE : PROT_READ | PROT_WRITE;
  for (auto buffer = buffers_.begin(); buffer != buffers_.end();) {
    // Neighbours at once.
    std::byte* const begin = buffer->first;
    std::byte* end = begin;
    for (; buffer != buffers_.end() && buffer->first == end; ++buffer) end += buffer->second;
    SLUICE_CHECK(mprotect(begin, end - begin, protection) == 0);
  }
}

}  // namespace sluice
