#include "tests/gpu/emulator/machine/shared_memory.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/ptx/module.h"

namespace sluice::cuda::emulator {
namespace {

constexpr size_t kSharedWordBytes = 4;

std::string Race(const char* what, const Moment& other, const Accessor& accessor) {
  return absl::StrCat(what, " by thread ", other.who, " and this access by thread ", accessor.who,
                      " race: no barrier orders them");
}

}  // namespace

SharedMemory::SharedMemory(size_t size_bytes)
    : bytes_(size_bytes, std::byte{0xff}),
      words_((size_bytes + kSharedWordBytes - 1) / kSharedWordBytes) {}

size_t SharedMemory::IndexOf(uint64_t address) {
  return (address - kSharedBase) / kSharedWordBytes;
}

std::string SharedMemory::CheckPlace(uint64_t address, size_t bytes, size_t alignment) const {
  if (address < kSharedBase || address - kSharedBase + bytes > bytes_.size()) {
    return absl::StrCat("bytes ", static_cast<int64_t>(address - kSharedBase), " to ",
                        static_cast<int64_t>(address - kSharedBase + bytes),
                        " of shared memory, which has ", bytes_.size());
  }
  if (address % alignment != 0) {
    return absl::StrCat("byte ", address - kSharedBase, " of shared memory is not aligned to ",
                        alignment);
  }
  return "";
}

std::string SharedMemory::NoteRead(Word& word, const Accessor& reader) {
  if (!reader.clock->IsAfter(word.write)) return Race("a write", word.write, reader);
  const Moment now{reader.who, (*reader.clock)[reader.who]};
  if (word.read.who == reader.who || reader.clock->IsAfter(word.read)) {
    word.read = now;
    return "";
  }
  if (word.other_reads == 0) {
    other_reads_.emplace_back();
    word.other_reads = static_cast<uint32_t>(other_reads_.size());
  }
  std::vector<Moment>& others = other_reads_[word.other_reads - 1];
  for (Moment& other : others) {
    if (other.who == reader.who) {
      other = now;
      return "";
    }
  }
  others.push_back(now);
  return "";
}

std::string SharedMemory::NoteWrite(Word& word, const Accessor& writer) {
  if (!writer.clock->IsAfter(word.write)) return Race("a write", word.write, writer);
  if (!writer.clock->IsAfter(word.read)) return Race("a read", word.read, writer);
  if (word.other_reads != 0) {
    std::vector<Moment>& others = other_reads_[word.other_reads - 1];
    for (const Moment& other : others) {
      if (!writer.clock->IsAfter(other)) return Race("a read", other, writer);
    }
    others.clear();
  }
  word.write = {writer.who, (*writer.clock)[writer.who]};
  word.read = {};
  word.atomically = false;
  word.by_thread = writer.proxy_fences != nullptr;
  word.writers_fences = writer.proxy_fences;
  word.fences_when_written = word.by_thread ? *writer.proxy_fences : 0;
  return "";
}

std::string SharedMemory::Read(uint64_t address, size_t bytes, size_t alignment,
                               const Accessor& reader, void* to) {
  std::string wrong = CheckPlace(address, bytes, alignment);
  if (!wrong.empty()) return wrong;
  for (size_t i = IndexOf(address); i <= IndexOf(address + bytes - 1) && wrong.empty(); ++i) {
    wrong = NoteRead(words_[i], reader);
  }
  std::memcpy(to, &bytes_[address - kSharedBase], bytes);
  return wrong;
}

std::string SharedMemory::Write(uint64_t address, size_t bytes, size_t alignment,
                                const Accessor& writer, const void* from) {
  std::string wrong = CheckPlace(address, bytes, alignment);
  if (!wrong.empty()) return wrong;
  for (size_t i = IndexOf(address); i <= IndexOf(address + bytes - 1) && wrong.empty(); ++i) {
    wrong = NoteWrite(words_[i], writer);
  }
  std::memcpy(&bytes_[address - kSharedBase], from, bytes);
  return wrong;
}

std::string SharedMemory::ReadByEngine(uint64_t address, size_t bytes, const Accessor& reader,
                                       void* to) {
  std::string wrong = CheckPlace(address, bytes, 16);
  if (!wrong.empty()) return wrong;
  for (size_t i = IndexOf(address); i <= IndexOf(address + bytes - 1) && wrong.empty(); ++i) {
    const Word& word = words_[i];
    wrong = NoteRead(words_[i], reader);
    if (wrong.empty() && word.by_thread && *word.writers_fences == word.fences_when_written) {
      wrong = absl::StrCat("thread ", word.write.who, " wrote what is read here and has not shown",
                           " it to the asynchronous proxy");
    }
  }
  std::memcpy(to, &bytes_[address - kSharedBase], bytes);
  return wrong;
}

std::string SharedMemory::Atomic(uint64_t address, const Accessor& writer, uint32_t add,
                                 uint32_t* before) {
  std::string wrong = CheckPlace(address, kSharedWordBytes, kSharedWordBytes);
  if (!wrong.empty()) return wrong;
  Word& word = words_[IndexOf(address)];
  if (wrong.empty() && word.atomically) {
    word.write = {writer.who, (*writer.clock)[writer.who]};
  } else if (wrong.empty()) {
    wrong = NoteWrite(word, writer);
  }
  word.atomically = true;
  std::memcpy(before, &bytes_[address - kSharedBase], kSharedWordBytes);
  const uint32_t sum = *before + add;
  std::memcpy(&bytes_[address - kSharedBase], &sum, kSharedWordBytes);
  return wrong;
}

}  // namespace sluice::cuda::emulator
