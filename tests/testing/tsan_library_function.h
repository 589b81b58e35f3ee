// How tests/testing/tsan_*.cc stand before functions of Debian's libraries, which are built without
// ThreadSanitizer: an executable's symbols win over those of the libraries it is linked with. They
// call the library's function and tell the sanitizer what it orders.
#pragma once

#include <dlfcn.h>
#include <sanitizer/tsan_interface.h>

#include "kernels/check.h"

namespace sluice::testing {

template <class Function>
Function* LibraryFunction(const char* mangled_name) {
  void* const address = dlsym(RTLD_NEXT, mangled_name);
  SLUICE_CHECK(address != nullptr);
  return reinterpret_cast<Function*>(address);
}

}  // namespace sluice::testing

// Declares `library`, the function that the enclosing one stands before.
#define SLUICE_LIBRARY(type, mangled_name) \
  static auto* const library = sluice::testing::LibraryFunction<type>(mangled_name)
