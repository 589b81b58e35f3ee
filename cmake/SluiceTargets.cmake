# One static library per leaf folder; includes are written from the root of the repository.

# sluice_library(NAME name SRCS a.cc ... DEPS sluice_x absl::status ...)
# Dependencies are public, so that a library is usable with what its headers include.
function(sluice_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(${ARG_NAME} STATIC ${ARG_SRCS})
  target_include_directories(${ARG_NAME} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${ARG_NAME} PUBLIC ${ARG_DEPS})
  sluice_compile_together(${ARG_NAME} ${ARG_DEPS})
endfunction()

# What every executable of the preset `tsan` is linked with: see tests/testing/tsan_library_function.h.
if(SLUICE_SANITIZER STREQUAL "thread")
  add_library(sluice_tsan_libraries OBJECT
    ${PROJECT_SOURCE_DIR}/tests/testing/tsan_abseil.cc ${PROJECT_SOURCE_DIR}/tests/testing/tsan_grpc.cc)
  target_include_directories(sluice_tsan_libraries PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(sluice_tsan_libraries PRIVATE absl::status absl::synchronization absl::time PkgConfig::grpc)
endif()

function(sluice_link_executable name)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARGN})
  if(TARGET sluice_tsan_libraries)
    target_link_libraries(${name} PRIVATE $<TARGET_OBJECTS:sluice_tsan_libraries> absl::status absl::synchronization PkgConfig::grpc)
  endif()
endfunction()

# sluice_binary(NAME sluice-shard SRCS main.cc DEPS ...): an executable in build/<preset>/bin.
function(sluice_binary)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  sluice_link_executable(${ARG_NAME} ${ARG_DEPS})
  sluice_program_from_precompiled(${ARG_NAME} ${ARG_DEPS})
endfunction()

# Hundreds of tests are linked: by the quicker of binutils' two linkers where there are both.
if(SLUICE_BUILD_TESTS AND NOT SLUICE_SANITIZER AND NOT CMAKE_CROSSCOMPILING)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold SLUICE_HAVE_GOLD)
endif()

# sluice_add_cases(ENTRY PROGRAM SECONDS LABELS [VARIABLE=value]...): one entry of CTest, which runs all cases of a
# GoogleTest program in one process. tests/testing/test_main.cc ends the program when a case takes longer than
# SECONDS, and records what each case did, for the summary of ./dev test.
function(sluice_add_cases entry program seconds labels)
  math(EXPR all_seconds "${seconds} * 10")
  if(TARGET ${program})
    add_test(NAME ${entry} COMMAND ${program})
  else()
    add_test(NAME ${entry} COMMAND ${CMAKE_BINARY_DIR}/tests/${program})
  endif()
  set_tests_properties(${entry} PROPERTIES
    COST ${seconds} LABELS "${labels}" SKIP_RETURN_CODE 77 TIMEOUT ${all_seconds}
    ENVIRONMENT "SLUICE_TEST_RECORD=${CMAKE_BINARY_DIR}/Testing/cases/${entry};SLUICE_TEST_CASE_SECONDS=${seconds};${ARGN}")
endfunction()

# sluice_test_executable(NAME SOURCES DEPENDENCIES)
function(sluice_test_executable name sources deps)
  add_executable(${name} ${sources})
  sluice_link_executable(${name} ${deps} sluice_tests_main)
  sluice_test_from_precompiled(${name} ${deps})
  if(SLUICE_HAVE_GOLD)
    target_link_options(${name} PRIVATE -fuse-ld=gold)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()

# sluice_test(NAME x_test SRCS x_test.cc DEPS ... [LABELS end_to_end] [TIMEOUT seconds a case] [PERF filter] [ASYNC]
# [GPU_ON_HOST] [ALONE]): a GoogleTest program, which is one entry of CTest. Where files are compiled together, the programs
# of a folder are links to one executable (sluice_join_test), but for those that are ALONE. Cases that measure, those of
# the --gtest_filter PERF, have an entry of their own, which ./dev perf runs. With ASYNC there is one more, on the
# asynchronous backend, with GPU_ON_HOST one on that of GPUs (tests/kernels/testing/test_backend.h), but where a sanitizer
# or an emulator forbids. Emulators, of processors or of GPUs, have ten times the time.
function(sluice_test)
  cmake_parse_arguments(ARG "ALONE;ASYNC;GPU_ON_HOST" "NAME;TIMEOUT;PERF" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(CMAKE_CROSSCOMPILING_EMULATOR OR SLUICE_CUDA STREQUAL "EMULATED")
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 10")
  endif()
  set_property(GLOBAL APPEND PROPERTY SLUICE_TEST_PROGRAMS ${ARG_NAME})
  if(SLUICE_COMPILES_TOGETHER AND NOT ARG_ALONE)
    sluice_join_test(${ARG_NAME} "${ARG_SRCS}" "${ARG_DEPS}")
  else()
    sluice_test_executable(${ARG_NAME} "${ARG_SRCS}" "${ARG_DEPS}")
  endif()
  if(ARG_PERF)
    sluice_add_cases(${ARG_NAME}.perf ${ARG_NAME} ${ARG_TIMEOUT} "${ARG_LABELS};perf" "GTEST_FILTER=${ARG_PERF}")
    set(without_perf "GTEST_FILTER=-${ARG_PERF}")
  endif()
  sluice_add_cases(${ARG_NAME} ${ARG_NAME} ${ARG_TIMEOUT} "${ARG_LABELS}" ${without_perf})
  if(NOT TARGET sluice_tests_gpu_host OR CMAKE_CROSSCOMPILING_EMULATOR)
    set(ARG_GPU_ON_HOST FALSE)
  endif()
  if(SLUICE_CUDA STREQUAL "EMULATED")  # on that GPU, once
    set(ARG_ASYNC FALSE)
    set(ARG_GPU_ON_HOST FALSE)
  endif()
  foreach(backend async gpu_on_host)
    string(TOUPPER ${backend} wanted)
    if(ARG_${wanted})
      sluice_add_cases(${ARG_NAME}.${backend} ${ARG_NAME} ${ARG_TIMEOUT} "${ARG_LABELS}" SLUICE_TEST_BACKEND=${backend})
    endif()
  endforeach()
endfunction()
