# Most of what a compiler reads for a file here is headers of the standard library, Abseil, Protocol Buffers and gRPC, and
# of the messages generated from protos. With SLUICE_COMPILE_TOGETHER, and where no compiler cache is named, a first build
# reads them seldom: headers of other libraries are compiled once, and the files of a library several at a time. Files
# include what they use all the same: `./dev lint` builds without, and finds what is missing.

option(SLUICE_COMPILE_TOGETHER "Compile files of a library together, where no compiler cache is used" OFF)

# A cache finds what starts from precompiled headers in the folder alone in which they were compiled, and of files that
# are compiled together all where one has changed.
if(SLUICE_COMPILE_TOGETHER AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(SLUICE_COMPILES_TOGETHER ON)
else()
  set(SLUICE_COMPILES_TOGETHER OFF)
endif()

# Most of what a test compiles runs once, so optimising it takes longer than running it. With -O1 three tests took 13 to
# 28% less processor time than with -O2 (24 to 46% with -O0, which slows tests that compare large tensors). What they test
# is optimised as ever.
set(SLUICE_TEST_OPTIMISATION $<$<CONFIG:Release>:-O1>)

if(SLUICE_COMPILES_TOGETHER)
  # A precompiled header is taken only where all macros that it met are the same; this one comes with Protocol Buffers.
  add_compile_definitions(NOMINMAX)

  set(standard_headers
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <filesystem> <fstream> <functional> <map> <memory> <mutex>
    <optional> <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
    <absl/container/flat_hash_map.h> <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/synchronization/mutex.h>
    <absl/time/clock.h> <absl/types/span.h> <nlohmann/json.hpp>)
  set(standard_libraries absl::flat_hash_map absl::statusor absl::str_format absl::synchronization)
  set(grpc_headers ${standard_headers}
    <google/protobuf/generated_message_reflection.h> <google/protobuf/map.h> <google/protobuf/message.h>
    <google/protobuf/repeated_field.h> <grpcpp/grpcpp.h>)
  set(grpc_libraries ${standard_libraries} PkgConfig::grpc protobuf::libprotobuf)

  set(nothing ${PROJECT_BINARY_DIR}/precompiled.cc)
  file(CONFIGURE OUTPUT ${nothing} CONTENT "// Headers alone: see cmake/SluiceCompileTogether.cmake.\nint main() {}\n")
  foreach(size standard grpc)
    add_library(sluice_precompiled_${size} OBJECT ${nothing})
    target_precompile_headers(sluice_precompiled_${size} PRIVATE ${${size}_headers})
    target_link_libraries(sluice_precompiled_${size} PRIVATE ${${size}_libraries})
    # An executable, because code of these is position independent in another way than a library's.
    if(SLUICE_BUILD_TESTS)
      add_executable(sluice_precompiled_tests_${size} ${nothing})
      target_precompile_headers(sluice_precompiled_tests_${size} PRIVATE ${${size}_headers} <gmock/gmock.h> <gtest/gtest.h>)
      target_link_libraries(sluice_precompiled_tests_${size} PRIVATE ${${size}_libraries} GTest::gmock)
      target_compile_options(sluice_precompiled_tests_${size} PRIVATE ${SLUICE_TEST_OPTIMISATION})
    endif()
  endforeach()
  # The services' programs alone are too few to pay for it; tests bring benchmarks and fuzz targets.
  if(SLUICE_BUILD_TESTS)
    add_executable(sluice_precompiled_programs ${nothing})
    target_precompile_headers(sluice_precompiled_programs PRIVATE ${grpc_headers})
    target_link_libraries(sluice_precompiled_programs PRIVATE ${grpc_libraries})
  endif()
endif()

# sluice_uses_grpc(RESULT TARGETS...): whether one of them, or what it is linked with, is gRPC or the protos.
function(sluice_uses_grpc result)
  set(${result} OFF PARENT_SCOPE)
  foreach(target ${ARGN})
    if(target STREQUAL "PkgConfig::grpc" OR target STREQUAL "sluice_protos")
      set(uses ON)
    elseif(NOT target MATCHES "^sluice_" OR NOT TARGET ${target})
      continue()
    else()
      get_property(known GLOBAL PROPERTY ${target}_USES_GRPC SET)
      if(NOT known)
        get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
        sluice_uses_grpc(uses ${linked})
        set_property(GLOBAL PROPERTY ${target}_USES_GRPC ${uses})
      endif()
      get_property(uses GLOBAL PROPERTY ${target}_USES_GRPC)
    endif()
    if(uses)
      set(${result} ON PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# sluice_program_from_precompiled(PROGRAM DEPENDENCIES...): main() of what uses gRPC; others read little.
function(sluice_program_from_precompiled program)
  if(NOT TARGET sluice_precompiled_programs)
    return()
  endif()
  sluice_uses_grpc(uses_grpc ${ARGN})
  if(uses_grpc)
    target_precompile_headers(${program} REUSE_FROM sluice_precompiled_programs)
    # As for tests, below.
    target_compile_options(${program} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow>)
  endif()
endfunction()

# sluice_test_from_precompiled(TEST DEPENDENCIES...): tests read GoogleTest's headers, too, and are too various to share more.
function(sluice_test_from_precompiled test)
  target_compile_options(${test} PRIVATE ${SLUICE_TEST_OPTIMISATION})
  if(NOT SLUICE_COMPILES_TOGETHER)
    return()
  endif()
  sluice_uses_grpc(uses_grpc ${ARGN})
  if(uses_grpc)
    target_precompile_headers(${test} REUSE_FROM sluice_precompiled_tests_grpc)
  else()
    target_precompile_headers(${test} REUSE_FROM sluice_precompiled_tests_standard)
  endif()
  # GCC 12 takes sums of strings, whose code comes from such a header, for overruns.
  target_compile_options(${test} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds -Wno-stringop-overflow>)
endfunction()

# sluice_compile_together(LIBRARY DEPENDENCIES...): with gRPC's headers where it depends on gRPC or the protos itself.
function(sluice_compile_together library)
  if(NOT SLUICE_COMPILES_TOGETHER)
    return()
  endif()
  set_target_properties(${library} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  # GCC takes a file that another one includes for a header, where unnamed namespaces would be out of place.
  target_compile_options(${library} PRIVATE -Wno-subobject-linkage)
  if("PkgConfig::grpc" IN_LIST ARGN OR "sluice_protos" IN_LIST ARGN)
    target_precompile_headers(${library} REUSE_FROM sluice_precompiled_grpc)
  else()
    target_precompile_headers(${library} REUSE_FROM sluice_precompiled_standard)
  endif()
endfunction()

# sluice_compile_alone(LIBRARY): what is optimised otherwise than the headers were, or includes itself, does not share.
function(sluice_compile_alone library)
  set_target_properties(${library} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON UNITY_BUILD OFF)
endfunction()

# sluice_optimise(LIBRARY): loops over arrays of vectors are unrolled, so that these stay in registers. Alone: GCC would take
# the options that shared headers were compiled with instead, without a word, and such loops at half their speed.
function(sluice_optimise library)
  target_compile_options(${library} PRIVATE $<$<CONFIG:Release>:-O3>)
  sluice_compile_alone(${library})
endfunction()

# sluice_join_test(TEST SOURCES DEPENDENCIES): half of what a compiler did for a first build was tests, one by one. The tests of a
# folder become one executable whose files are compiled together, and each TEST a link to it: called by that name it runs the
# cases of these SOURCES alone (tests/testing/joined_tests.h).
function(sluice_join_test test sources deps)
  get_property(joined DIRECTORY PROPERTY SLUICE_JOINED_TESTS)
  if(NOT joined)
    cmake_language(DEFER CALL sluice_join_tests)
  endif()
  set_property(DIRECTORY APPEND PROPERTY SLUICE_JOINED_TESTS ${test})
  set_property(DIRECTORY APPEND PROPERTY SLUICE_JOINED_DEPS ${deps})
  set_property(DIRECTORY APPEND PROPERTY SLUICE_JOINED_SOURCES ${sources})
  foreach(source ${sources})
    get_filename_component(path ${source} ABSOLUTE)
    set_property(DIRECTORY APPEND_STRING PROPERTY SLUICE_JOINED_TABLE "    {\"${test}\", \"${path}\"},\n")
  endforeach()
endfunction()

# At the end of a folder with tests.
function(sluice_join_tests)
  foreach(property TESTS DEPS SOURCES TABLE)
    get_property(${property} DIRECTORY PROPERTY SLUICE_JOINED_${property})
  endforeach()
  list(REMOVE_DUPLICATES DEPS)
  list(REMOVE_DUPLICATES SOURCES)
  list(LENGTH TESTS count)
  if(count EQUAL 1)
    sluice_test_executable(${TESTS} "${SOURCES}" "${DEPS}")
    return()
  endif()

  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" name ${folder})
  set(table ${CMAKE_CURRENT_BINARY_DIR}/joined_tests.cc)
  file(CONFIGURE OUTPUT ${table} CONTENT [[
// Made by cmake/SluiceCompileTogether.cmake.
#include "tests/testing/joined_tests.h"

namespace {
constexpr sluice::testing::JoinedTest kJoinedTests[] = {
@TABLE@};
const sluice::testing::JoinedTests joined_tests(kJoinedTests);
}  // namespace
]] @ONLY)
  sluice_test_executable(${name} "${SOURCES};${table}" "${DEPS}")
  set_target_properties(${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  target_compile_options(${name} PRIVATE -Wno-subobject-linkage)
  foreach(test ${TESTS})
    file(CREATE_LINK ${name} ${CMAKE_BINARY_DIR}/tests/${test} SYMBOLIC)
    add_custom_target(${test} DEPENDS ${name})
  endforeach()
endfunction()
