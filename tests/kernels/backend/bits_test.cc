// The bits of every operation, against a record: whoever changes them has to raise the version in
// the backend's name, since processes of one name pass for the same to a replica that goes on with
// a stream. Different SIMD targets of one name are held against one record, so it also shows that
// the name says enough.
//
// After raising the version, SLUICE_RECORD_BITS=1 makes the test write the record anew. It adds
// operations that are not on record, too.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "tests/kernels/backend/operation_bits.h"
#include "tests/kernels/testing/backend_cases.h"

namespace sluice::testing {
namespace {

using BitsTest = BackendTest;
SLUICE_FOR_CPU_BACKENDS(BitsTest);

// "cpu/portable v3" without its version.
std::string Kind(const std::string& name) { return name.substr(0, name.rfind(' ')); }

TEST_P(BitsTest, AreThoseOfTheRecord) {
  const std::string name(backend().name());
  const std::map<std::string, std::string> bits = BitsOf(backend());
  Record record = ReadRecord();
  if (std::getenv("SLUICE_RECORD_BITS") != nullptr) {
    std::erase_if(record, [&](const auto& entry) {
      return entry.first != name && Kind(entry.first) == Kind(name);
    });
    record[name].insert(bits.begin(), bits.end());  // what is new
    WriteRecord(record);
  }
  const auto recorded = record.find(name);
  if (recorded == record.end()) {
    const bool has_another_version = std::any_of(
        record.begin(), record.end(), [&](auto& entry) { return Kind(entry.first) == Kind(name); });
    ASSERT_FALSE(has_another_version)
        << "the version was raised: record \"" << name << "\" with SLUICE_RECORD_BITS=1";
    GTEST_SKIP() << "nobody has recorded the bits of " << name << " yet";
  }
  for (const auto& [operation, hash] : bits) {
    const auto known = recorded->second.find(operation);
    ASSERT_NE(known, recorded->second.end()) << operation << " is not on record for " << name;
    EXPECT_EQ(hash, known->second)
        << operation << " gives other bits: raise kBitsVersion of the backend, or give back the "
        << "bits that " << name << " stands for";
  }
}

}  // namespace
}  // namespace sluice::testing
