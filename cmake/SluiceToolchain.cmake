# Compiler settings shared by every target.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")

add_compile_options(-Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers)
# A multiply followed by an add is fused only where the code says so: otherwise the compiler's choice, which may
# differ between two copies of one loop, would decide the bits of a token.
add_compile_options(-ffp-contract=off)

if(SLUICE_SANITIZER)
  add_compile_options(-fsanitize=${SLUICE_SANITIZER})
  add_link_options(-fsanitize=${SLUICE_SANITIZER})
endif()

if(SLUICE_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# What is handed out: no address known beforehand, no table left writable, overruns noticed, and no word of the folder it
# was built in.
if(SLUICE_HARDENING)
  include(CheckPIESupported)
  check_pie_supported()
  file(RELATIVE_PATH source_from_build ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR}/)
  add_compile_options(
    -fstack-protector-strong -fstack-clash-protection -fcf-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
    -ffile-prefix-map=${source_from_build}= -ffile-prefix-map=${CMAKE_BINARY_DIR}/= -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
  add_link_options(-Wl,-z,relro,-z,now -Wl,-z,noexecstack -Wl,--as-needed)
endif()

# Not by the presets that compile files together, to which a cache gives nothing.
find_program(SLUICE_CCACHE ccache)
if(SLUICE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SLUICE_CCACHE})
endif()
