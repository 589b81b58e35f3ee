#include "tests/gpu/emulator/machine/global_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

namespace sluice::cuda::emulator {
namespace {

constexpr size_t kWordBytes = 4;
// Who accessed a word atomically: no block by itself.
constexpr uint32_t kNobody = ~0u;

size_t NumWords(size_t size_bytes) { return size_bytes / kWordBytes + 1; }

}  // namespace

GlobalMemory::~GlobalMemory() {
  while (!allocations_.empty()) Remove(reinterpret_cast<void*>(allocations_.begin()->first));
}

void GlobalMemory::Add(const void* begin, size_t size_bytes) {
  void* const words = mmap(nullptr, NumWords(size_bytes) * sizeof(Word), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  allocations_[reinterpret_cast<uint64_t>(begin)] = {
      size_bytes, words == MAP_FAILED ? nullptr : static_cast<Word*>(words)};
  last_ = nullptr;
}

void GlobalMemory::Remove(const void* begin) {
  const auto found = allocations_.find(reinterpret_cast<uint64_t>(begin));
  if (found == allocations_.end()) return;
  if (found->second.words != nullptr) {
    munmap(found->second.words, NumWords(found->second.size_bytes) * sizeof(Word));
  }
  allocations_.erase(found);
  last_ = nullptr;
}

const GlobalMemory::Allocation* GlobalMemory::FindAllocation(uint64_t address) const {
  if (last_ != nullptr && address - last_begin_ < last_->size_bytes) return last_;
  const auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return nullptr;
  const auto& [begin, allocation] = *std::prev(next);
  if (address - begin >= allocation.size_bytes) return nullptr;
  last_begin_ = begin;
  return last_ = &allocation;
}

GlobalMemory::Found GlobalMemory::Find(uint64_t address) const {
  const Allocation* const allocation = FindAllocation(address);
  if (allocation == nullptr) return {};
  return {last_begin_, allocation->size_bytes};
}

std::string GlobalMemory::Check(uint64_t address, size_t bytes, size_t alignment) const {
  const Allocation* const allocation = FindAllocation(address);
  if (allocation == nullptr) return absl::StrCat("0x", absl::Hex(address), " is in no allocation");
  if (address - last_begin_ + bytes > allocation->size_bytes) {
    return absl::StrCat("bytes ", address - last_begin_, " to ", address - last_begin_ + bytes,
                        " of an allocation of ", allocation->size_bytes);
  }
  if (address % alignment != 0) {
    return absl::StrCat("0x", absl::Hex(address), " is not aligned to ", alignment);
  }
  return "";
}

void GlobalMemory::BeginLaunch(const LaunchOrder& order) {
  order_ = order;
  streams_.resize(std::max<size_t>(streams_.size(), order.number + 1));
  streams_[order.number] = order.stream;
  blocks_.clear();
  passed_on_.clear();
}

void GlobalMemory::Fence(uint32_t block) { ++blocks_[block].fences; }

bool GlobalMemory::HasHeard(uint32_t block, uint32_t of, uint32_t fences) const {
  if (of == block || of == kNobody) return true;
  const auto state = blocks_.find(block);
  if (state == blocks_.end()) return false;
  const auto heard = state->second.heard.find(of);
  return heard != state->second.heard.end() && heard->second > fences;
}

std::string GlobalMemory::CheckLaunch(uint32_t launch, const char* did,
                                      const Accessor& accessor) const {
  const uint32_t over = accessor.has_waited ? order_.over_after_wait : order_.over_at_start;
  if (launch <= over || launch == order_.number || streams_[launch] != order_.stream) return "";
  return absl::StrCat("a launch that may not be over ", did, " this, ", order_.number - launch,
                      " before, and this one has not waited for it");
}

std::string GlobalMemory::NoteRead(Word& word, const Accessor& accessor) {
  std::string wrong = CheckLaunch(word.writer, "writes", accessor);
  if (wrong.empty() && word.writer == order_.number &&
      !HasHeard(accessor.block, word.writer_block, word.writer_fences)) {
    wrong = absl::StrCat("block ", word.writer_block, " writes what this one reads: no fences and ",
                         "atomic accesses order them");
  }
  word.reader = order_.number;
  word.reader_block = accessor.block;
  const auto state = blocks_.find(accessor.block);
  word.reader_fences = state == blocks_.end() ? 0 : state->second.fences;
  return wrong;
}

std::string GlobalMemory::NoteWrite(Word& word, const Accessor& accessor) {
  std::string wrong = CheckLaunch(word.writer, "writes", accessor);
  if (wrong.empty()) wrong = CheckLaunch(word.reader, "reads", accessor);
  if (wrong.empty() && word.writer == order_.number &&
      !HasHeard(accessor.block, word.writer_block, word.writer_fences)) {
    wrong = absl::StrCat("block ", word.writer_block, " writes this, too: nothing orders them");
  }
  if (wrong.empty() && word.reader == order_.number &&
      !HasHeard(accessor.block, word.reader_block, word.reader_fences)) {
    wrong = absl::StrCat("block ", word.reader_block, " reads this: nothing orders them");
  }
  word.writer = order_.number;
  word.writer_block = accessor.block;
  const auto state = blocks_.find(accessor.block);
  word.writer_fences = state == blocks_.end() ? 0 : state->second.fences;
  return wrong;
}

void GlobalMemory::NoteAtomic(Word& word, uint64_t address, const Accessor& accessor) {
  word.writer = order_.number;
  word.writer_block = kNobody;
  BlockState& state = blocks_[accessor.block];
  auto& passed_on = passed_on_[address];
  for (const auto& [block, fences] : passed_on) {
    state.heard[block] = std::max(state.heard[block], fences);
  }
  for (const auto& [block, fences] : state.heard) {
    passed_on[block] = std::max(passed_on[block], fences);
  }
  passed_on[accessor.block] = state.fences;
}

std::string GlobalMemory::Note(Access access, uint64_t address, size_t bytes, size_t alignment,
                               const Accessor& accessor) {
  std::string wrong = Check(address, bytes, alignment);
  if (!wrong.empty() || last_->words == nullptr) return wrong;
  const size_t end = (address - last_begin_ + bytes - 1) / kWordBytes;
  for (size_t i = (address - last_begin_) / kWordBytes; i <= end && wrong.empty(); ++i) {
    Word& word = last_->words[i];
    if (access == Access::kRead) {
      wrong = NoteRead(word, accessor);
    } else if (access == Access::kRelaxedWrite || bytes < kWordBytes) {
      // Others may write it, too, or have the rest of the word: only what other launches did is looked
      // at.
      wrong = CheckLaunch(word.writer, "writes", accessor);
      if (wrong.empty()) wrong = CheckLaunch(word.reader, "reads", accessor);
      word.writer = order_.number;
      word.writer_block = kNobody;
    } else if (access == Access::kWrite) {
      wrong = NoteWrite(word, accessor);
    } else {
      wrong = CheckLaunch(word.writer, "writes", accessor);
      NoteAtomic(word, address, accessor);
    }
  }
  return wrong;
}

}  // namespace sluice::cuda::emulator
