# Debian 12 packages; docs/dependencies.md gives the reason for each.

# Of kernels/ and its tests.
find_package(Threads REQUIRED)
find_package(absl REQUIRED)
find_package(hwy REQUIRED)
find_package(OpenSSL REQUIRED)
find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
if(SLUICE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SLUICE_KERNELS_ONLY)
  return()
endif()

# PkgConfig::grpc, as pkg_check_modules(grpc REQUIRED IMPORTED_TARGET grpc++) makes it. That asks pkg-config twenty
# questions, and each about gRPC, which names a hundred libraries, takes half a second.
function(sluice_find_grpc)
  execute_process(COMMAND ${PKG_CONFIG_EXECUTABLE} --libs-only-l grpc++ OUTPUT_VARIABLE libraries
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(libraries UNIX_COMMAND "${libraries}")
  list(FILTER libraries INCLUDE REGEX "^-l")
  list(REMOVE_DUPLICATES libraries)
  add_library(PkgConfig::grpc INTERFACE IMPORTED GLOBAL)
  target_compile_options(PkgConfig::grpc INTERFACE -DNOMINMAX)
  target_link_libraries(PkgConfig::grpc INTERFACE ${libraries})
endfunction()

# Of everything else.
find_package(Protobuf REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
if(SLUICE_GATEWAY)
  find_package(Boost 1.81 REQUIRED)
endif()
sluice_find_grpc()
pkg_check_modules(crypto REQUIRED IMPORTED_TARGET libcrypto)
pkg_check_modules(curl REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(libedit REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(yaml_cpp REQUIRED IMPORTED_TARGET yaml-cpp)
find_library(GRPC_REFLECTION_LIBRARY grpc++_reflection REQUIRED)
find_program(PROTOC protoc REQUIRED)
find_program(GRPC_CPP_PLUGIN grpc_cpp_plugin REQUIRED)

if(SLUICE_BUILD_TESTS)
  find_package(benchmark REQUIRED)
  # Debian's own, where python3-numpy and python3-grpcio are, before any other that is first in the PATH.
  find_program(SLUICE_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
endif()
