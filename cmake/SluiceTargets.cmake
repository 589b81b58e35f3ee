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
endfunction()

# Hundreds of tests are linked: by the quicker of binutils' two linkers where there are both.
if(SLUICE_BUILD_TESTS AND NOT SLUICE_SANITIZER AND NOT CMAKE_CROSSCOMPILING)
  include(CheckLinkerFlag)
  check_linker_flag(CXX -fuse-ld=gold SLUICE_HAVE_GOLD)
endif()

# sluice_test(NAME x_test SRCS x_test.cc DEPS ... [LABELS end_to_end] [TIMEOUT seconds] [ASYNC] [GPU_ON_HOST]): a GoogleTest
# binary, each case one entry of ctest, so that skipped cases are counted there. With ASYNC each case runs once more, on
# the asynchronous backend, with GPU_ON_HOST on that of GPUs (tests/kernels/testing/test_backend.h), but where a
# sanitizer or an emulator forbids. Emulators, of processors or of GPUs, have ten times the time.
function(sluice_test)
  cmake_parse_arguments(ARG "ASYNC;GPU_ON_HOST" "NAME;TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  if(CMAKE_CROSSCOMPILING_EMULATOR OR SLUICE_CUDA STREQUAL "EMULATED")
    math(EXPR ARG_TIMEOUT "${ARG_TIMEOUT} * 10")
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_property(GLOBAL APPEND PROPERTY SLUICE_TEST_PROGRAMS ${ARG_NAME})
  sluice_link_executable(${ARG_NAME} ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  sluice_test_from_precompiled(${ARG_NAME} ${ARG_DEPS})
  if(SLUICE_HAVE_GOLD)
    target_link_options(${ARG_NAME} PRIVATE -fuse-ld=gold)
  endif()
  set_target_properties(${ARG_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(properties TIMEOUT ${ARG_TIMEOUT})
  if(ARG_LABELS)
    list(APPEND properties LABELS ${ARG_LABELS})
  endif()
  gtest_discover_tests(${ARG_NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST TEST_PREFIX "${ARG_NAME}." PROPERTIES ${properties})
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
      gtest_discover_tests(${ARG_NAME} NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST TEST_PREFIX "${ARG_NAME}.${backend}."
        TEST_LIST ${ARG_NAME}_${backend}_tests PROPERTIES ${properties} ENVIRONMENT "SLUICE_TEST_BACKEND=${backend}")
    endif()
  endforeach()
endfunction()
