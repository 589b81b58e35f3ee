#include "services/common/random.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace sluice {
namespace {

// As many bytes as the system always gives as a whole (getrandom(2)).
using Numbers = std::array<uint64_t, 256 / sizeof(uint64_t)>;

void Draw(Numbers& numbers) {
  while (getrandom(numbers.data(), sizeof(numbers), 0) != sizeof(numbers)) {
    if (errno != EINTR) std::abort();  // a system without it runs nothing of ours
  }
}

}  // namespace

uint64_t RandomNumber() {
  static thread_local Numbers numbers;
  static thread_local size_t num_used = numbers.size();
  if (num_used == numbers.size()) {
    Draw(numbers);
    num_used = 0;
  }
  return numbers[num_used++];
}

}  // namespace sluice
