#include "tests/gpu/emulator/machine/traffic.h"

#include <algorithm>
#include <set>

#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

constexpr uint64_t kBankBytes = 4;
constexpr uint64_t kBanks = 32;
constexpr uint64_t kSectorBytes = 32;

int64_t UnitsFor(size_t words, uint64_t words_of_unit) {
  return static_cast<int64_t>((words + words_of_unit - 1) / words_of_unit);
}

// Words that several lanes ask for are read, and written, once.
void AddWords(uint64_t address, uint32_t bytes, std::set<uint64_t>& words) {
  for (uint64_t word = address / kBankBytes; word * kBankBytes < address + bytes; ++word) {
    words.insert(word);
  }
}

// In each turn a bank gives one word.
AccessCost SharedCost(const std::set<uint64_t>& words) {
  std::array<int64_t, kBanks> by_bank{};
  for (const uint64_t word : words) ++by_bank[word % kBanks];
  return {.turns = *std::max_element(by_bank.begin(), by_bank.end()),
          .least = UnitsFor(words.size(), kBanks)};
}

AccessCost GlobalCost(const std::set<uint64_t>& words) {
  std::set<uint64_t> sectors;
  for (const uint64_t word : words) sectors.insert(word * kBankBytes / kSectorBytes);
  return {.turns = static_cast<int64_t>(sectors.size()),
          .least = UnitsFor(words.size(), kSectorBytes / kBankBytes)};
}

}  // namespace

void Traffic::Note(const Thread& thread, const Step& step, Space space, uint64_t address,
                   uint32_t bytes) {
  const Key key{&step, space};
  Open& open = open_[{key, thread.warp}];
  const uint32_t number = open.counts[thread.lane]++ - open.first;
  if (number >= open.accesses.size()) open.accesses.resize(number + 1);
  WarpAccess& access = open.accesses[number];
  access.bytes = bytes;
  access.lanes |= 1u << thread.lane;
  access.addresses[thread.lane] = address;
  while (!open.accesses.empty() && open.accesses.front().lanes == ~0u) {
    costs_[key] += CostOf(open.accesses.front(), space);
    open.accesses.pop_front();
    ++open.first;
  }
}

void Traffic::EndCluster() {
  for (const auto& [key, open] : open_) {
    for (const WarpAccess& access : open.accesses) {
      costs_[key.first] += CostOf(access, key.first.space);
    }
  }
  open_.clear();
}

// Shared memory serves as many lanes at a time as have 128 bytes between them.
AccessCost Traffic::CostOf(const WarpAccess& access, Space space) {
  const int lanes_at_a_time =
      space == Space::kGlobal
          ? kLanes
          : std::min<int>(kLanes, kBanks * kBankBytes / std::max(access.bytes, 4u));
  AccessCost cost{.accesses = 1};
  for (int first = 0; first < kLanes; first += lanes_at_a_time) {
    std::set<uint64_t> words;
    for (int lane = first; lane < first + lanes_at_a_time; ++lane) {
      if ((access.lanes >> lane & 1) != 0) AddWords(access.addresses[lane], access.bytes, words);
    }
    cost += space == Space::kGlobal ? GlobalCost(words) : SharedCost(words);
  }
  return cost;
}

}  // namespace sluice::cuda::emulator
