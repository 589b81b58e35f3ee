# Most of what a compiler reads for a file here is headers of the standard library, Abseil, Protocol Buffers and gRPC: half
# of the time of a first build. With SLUICE_PRECOMPILED_HEADERS they are compiled once, and every library starts from what
# came of it. Files include what they use all the same: `./dev lint` builds without, and finds what is missing.

option(SLUICE_PRECOMPILED_HEADERS "Compile the headers of other libraries once, where no compiler cache is used" OFF)

# A cache finds what starts from precompiled headers in the folder alone in which they were compiled.
if(SLUICE_PRECOMPILED_HEADERS AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(SLUICE_USES_PRECOMPILED_HEADERS ON)
else()
  set(SLUICE_USES_PRECOMPILED_HEADERS OFF)
endif()

if(SLUICE_USES_PRECOMPILED_HEADERS)
  # A precompiled header is taken only where all macros that it met are the same; this one comes with Protocol Buffers.
  add_compile_definitions(NOMINMAX)

  set(empty ${PROJECT_BINARY_DIR}/precompiled.cc)
  file(CONFIGURE OUTPUT ${empty} CONTENT "// Headers alone: see cmake/SluicePrecompiled.cmake.\n")
  set(standard_headers
    <algorithm> <array> <atomic> <chrono> <cstdint> <cstring> <filesystem> <fstream> <functional> <map> <memory> <mutex>
    <optional> <sstream> <string> <string_view> <thread> <unordered_map> <utility> <variant> <vector>
    <absl/container/flat_hash_map.h> <absl/status/status.h> <absl/status/statusor.h> <absl/strings/str_cat.h>
    <absl/strings/str_format.h> <absl/strings/str_join.h> <absl/strings/str_split.h> <absl/synchronization/mutex.h>
    <absl/time/clock.h> <absl/types/span.h> <nlohmann/json.hpp>)
  set(standard_libraries absl::flat_hash_map absl::statusor absl::str_format absl::synchronization)

  add_library(sluice_precompiled_standard OBJECT ${empty})
  target_precompile_headers(sluice_precompiled_standard PRIVATE ${standard_headers})
  target_link_libraries(sluice_precompiled_standard PRIVATE ${standard_libraries})

  add_library(sluice_precompiled_grpc OBJECT ${empty})
  target_precompile_headers(sluice_precompiled_grpc PRIVATE ${standard_headers}
    <google/protobuf/generated_message_reflection.h> <google/protobuf/map.h> <google/protobuf/message.h>
    <google/protobuf/repeated_field.h> <grpcpp/grpcpp.h>)
  target_link_libraries(sluice_precompiled_grpc PRIVATE ${standard_libraries} PkgConfig::grpc protobuf::libprotobuf)
endif()

# sluice_use_precompiled_headers(LIBRARY DEPENDENCIES...): those with gRPC where it depends on gRPC or the protos itself.
function(sluice_use_precompiled_headers library)
  if(NOT SLUICE_USES_PRECOMPILED_HEADERS)
    return()
  endif()
  if("PkgConfig::grpc" IN_LIST ARGN OR "sluice_protos" IN_LIST ARGN)
    target_precompile_headers(${library} REUSE_FROM sluice_precompiled_grpc)
  else()
    target_precompile_headers(${library} REUSE_FROM sluice_precompiled_standard)
  endif()
endfunction()
