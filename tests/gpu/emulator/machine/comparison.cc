// setp. Comparisons that end in u are true of NaN.
#include <string>

#include "tests/gpu/emulator/machine/by_type.h"
#include "tests/gpu/emulator/machine/program.h"
#include "tests/gpu/emulator/machine/thread.h"

namespace sluice::cuda::emulator {
namespace {

struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b || a > b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterOrEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
template <class Comparison>
struct OrNan {
  template <class T>
  bool operator()(T a, T b) const {
    return a != a || b != b || Comparison()(a, b);
  }
};
struct Never {
  template <class T>
  bool operator()(T, T) const {
    return false;
  }
};
struct Ordered {
  template <class T>
  bool operator()(T a, T b) const {
    return a == a && b == b;
  }
};

template <class T, class Comparison>
void Compare(Thread& thread, const Step& step) {
  thread.Set<uint64_t>(step.r[0],
                       Comparison()(thread.Get<T>(step.r[1]), thread.Get<T>(step.r[2])) ? 1 : 0);
}

template <class Comparison>
Execute CompareBy(const std::string& type) {
  return ForNumber(type, [](auto zero) -> Execute { return Compare<decltype(zero), Comparison>; });
}

Execute ComparisonOf(const std::string& name, const std::string& type) {
  if (name == "eq") return CompareBy<Equal>(type);
  if (name == "ne") return CompareBy<NotEqual>(type);
  if (name == "lt" || name == "lo") return CompareBy<Less>(type);
  if (name == "le" || name == "ls") return CompareBy<LessOrEqual>(type);
  if (name == "gt" || name == "hi") return CompareBy<Greater>(type);
  if (name == "ge" || name == "hs") return CompareBy<GreaterOrEqual>(type);
  if (name == "equ") return CompareBy<OrNan<Equal>>(type);
  if (name == "neu") return CompareBy<OrNan<NotEqual>>(type);
  if (name == "ltu") return CompareBy<OrNan<Less>>(type);
  if (name == "leu") return CompareBy<OrNan<LessOrEqual>>(type);
  if (name == "gtu") return CompareBy<OrNan<Greater>>(type);
  if (name == "geu") return CompareBy<OrNan<GreaterOrEqual>>(type);
  if (name == "nan") return CompareBy<OrNan<Never>>(type);
  if (name == "num") return CompareBy<Ordered>(type);
  return nullptr;
}

}  // namespace

bool PrepareComparison(const Instruction& instruction, Step& step) {
  if (instruction.parts[0] != "setp" || instruction.parts.size() != 3) return false;
  step.execute = ComparisonOf(instruction.parts[1], instruction.parts[2]);
  return step.execute != nullptr;
}

}  // namespace sluice::cuda::emulator
