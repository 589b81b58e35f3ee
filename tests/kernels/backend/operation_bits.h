// The bits of every operation of a backend, and the record that they are held against.
#pragma once

#include <map>
#include <string>

#include "kernels/backend.h"

namespace sluice::testing {

// A hash for each operation, by the name under which it is recorded.
std::map<std::string, std::string> BitsOf(Backend& backend);

// Lines "NAME|OPERATION|HASH", by NAME and OPERATION; NAME ends with its version.
using Record = std::map<std::string, std::map<std::string, std::string>>;

Record ReadRecord();
void WriteRecord(const Record& record);

}  // namespace sluice::testing
