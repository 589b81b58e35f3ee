# Debian 12 packages; docs/dependencies.md gives the reason for each.

find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(hwy REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
pkg_check_modules(grpc REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(crypto REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
find_path(GLOO_INCLUDE gloo/context.h REQUIRED)
find_library(GLOO_LIBRARY gloo REQUIRED)
find_library(GRPC_REFLECTION_LIBRARY grpc++_reflection REQUIRED)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

add_library(sluice_gloo INTERFACE)
target_include_directories(sluice_gloo SYSTEM INTERFACE ${GLOO_INCLUDE})
target_link_libraries(sluice_gloo INTERFACE ${GLOO_LIBRARY})

if(SLUICE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  find_package(benchmark REQUIRED)
  # Debian's own, where python3-numpy and python3-grpcio are, before any other that is first in the PATH.
  find_program(SLUICE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
endif()
