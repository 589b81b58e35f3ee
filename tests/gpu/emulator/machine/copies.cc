// cp.async and cp.async.bulk.
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

// cp.async.cg.shared.global [to], [from], bytes {, bytes that are read}; the rest is zero. What it
// reads it reads now, what it writes it writes when it is waited for.
void CopySmall(Thread& thread, const Step& step) {
  SmallCopy copy;
  copy.to = thread.SharedAddress(step, 0);
  copy.bytes = static_cast<int>(thread.Get<uint32_t>(step.r[2]));
  const size_t real = step.count > 3 ? thread.Get<uint32_t>(step.r[3]) : copy.bytes;
  const uint64_t from = thread.Address(step, 1);
  if (copy.bytes > 16 || real > static_cast<size_t>(copy.bytes)) {
    return thread.Fault("a copy of more bytes than there may be");
  }
  NoteTraffic(thread, step, Space::kShared, copy.to, copy.bytes);
  if (real != 0) {
    NoteTraffic(thread, step, Space::kGlobal, from, real);
    const std::string wrong = thread.block->cluster->memory->Note(
        GlobalMemory::Access::kRead, from, real, copy.bytes, thread.global_accessor());
    if (!wrong.empty()) return thread.Fault(wrong);
    std::memcpy(copy.data.data(), reinterpret_cast<const void*>(from), real);
  }
  thread.copies.push_back(copy);
}

void CommitCopies(Thread& thread, const Step&) {
  thread.copy_groups.push_back(std::exchange(thread.copies, {}));
}

void WaitForCopies(Thread& thread, const Step& step) {
  const size_t most_pending = thread.Get<uint32_t>(step.r[0]);
  while (thread.copy_groups.size() > most_pending) {
    for (const SmallCopy& copy : thread.copy_groups.front()) {
      thread.Fault(thread.block->shared->Write(copy.to, copy.bytes, copy.bytes, thread.accessor(),
                                               copy.data.data()));
    }
    thread.copy_groups.pop_front();
  }
}

// cp.async.bulk... [to], [from], bytes, [barrier] {, ranks}.
void CopyBulk(Thread& thread, const Step& step) {
  Cluster& cluster = *thread.block->cluster;
  BulkCopy copy;
  copy.to = thread.SharedAddress(step, 0);
  copy.from = thread.Address(step, 1);
  copy.bytes = thread.Get<uint32_t>(step.r[2]);
  copy.barrier = thread.SharedAddress(step, 3);
  copy.clock = thread.clock;
  copy.accessor = thread.global_accessor();
  if (copy.bytes % 16 != 0 || copy.from % 16 != 0 || copy.to % 16 != 0) {
    return thread.Fault("a copy in bulk is not of whole sixteen bytes");
  }
  const uint32_t ranks =
      step.count > 4 ? thread.Get<uint16_t>(step.r[4]) : 1u << thread.block->rank;
  if (ranks >> cluster.blocks.size() != 0)
    return thread.Fault("a copy to blocks that are not there");
  for (size_t rank = 0; rank < cluster.blocks.size(); ++rank) {
    if ((ranks >> rank & 1) == 0) continue;
    copy.rank = static_cast<int>(rank);
    cluster.copies.push_back(copy);
  }
}

}  // namespace

bool PrepareCopy(const Instruction& instruction, Step& step) {
  if (instruction.parts[0] != "cp") return false;
  step.count = static_cast<int>(instruction.registers.size());
  if (instruction.Has("bulk")) {
    step.execute = instruction.Has("mbarrier::complete_tx::bytes") ? CopyBulk : nullptr;
  } else if (instruction.Has("commit_group")) {
    step.execute = CommitCopies;
  } else if (instruction.Has("wait_group")) {
    step.execute = WaitForCopies;
  } else if (instruction.Has("ca") || instruction.Has("cg")) {
    step.execute = CopySmall;
  }
  return step.execute != nullptr;
}

}  // namespace sluice::cuda::emulator
