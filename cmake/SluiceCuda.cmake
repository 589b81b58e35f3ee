# Finds nvcc and says whether kernels for NVIDIA GPUs are built: SLUICE_HAVE_CUDA.
#
# nvcc is called by rules of our own, so that nothing meant for the host's compiler (sanitizers, warnings, precompiled
# headers, hardening) reaches it, and what is linked stays a C++ program. The runtime is linked statically and opens the
# driver at run time: programs start where there is neither GPU nor driver.

# EMULATED: nvcc's PTX is carried out on the host (tests/gpu/emulator), and programs find a GPU everywhere.

set(SLUICE_CUDA AUTO CACHE STRING "Build kernels for NVIDIA GPUs: AUTO (where nvcc is found), ON, OFF or EMULATED")
set_property(CACHE SLUICE_CUDA PROPERTY STRINGS AUTO ON OFF EMULATED)
set(SLUICE_HAVE_CUDA FALSE)

set(SLUICE_CUDA_CODE "" CACHE STRING
  "Compute capability that kernels are compiled for alone, such as 90a; empty: all that are supported")
# Machine code for A100 and what runs its code (compute capability 8.x), for H100 and H200, and what later GPUs' drivers
# compile. (The two of 90 come of one pass of the compiler.)
set(SLUICE_DEVICE_CODE -gencode=arch=compute_80,code=sm_80 "-gencode=arch=compute_90,code=[sm_90,compute_90]")
# For sources called *_hopper.cu: instructions that only this generation has.
set(SLUICE_HOPPER_DEVICE_CODE -gencode=arch=compute_90a,code=sm_90a)
if(SLUICE_CUDA_CODE)
  set(SLUICE_DEVICE_CODE -gencode=arch=compute_${SLUICE_CUDA_CODE},code=sm_${SLUICE_CUDA_CODE})
endif()
if(SLUICE_CUDA STREQUAL "EMULATED")
  set(SLUICE_DEVICE_CODE -gencode=arch=compute_90a,code=compute_90a --no-compress)
  set(SLUICE_HOPPER_DEVICE_CODE ${SLUICE_DEVICE_CODE})
endif()

if(SLUICE_CUDA STREQUAL "EMULATED" AND NOT SLUICE_BUILD_TESTS)
  message(FATAL_ERROR "SLUICE_CUDA is EMULATED, which is for tests, and SLUICE_BUILD_TESTS is OFF")
endif()
if(NOT SLUICE_CUDA STREQUAL "OFF")
  file(GLOB cuda_folders LIST_DIRECTORIES TRUE /usr/local/cuda-1[3-9]*)
  list(SORT cuda_folders COMPARE NATURAL ORDER DESCENDING)
  find_program(SLUICE_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda ${cuda_folders} PATH_SUFFIXES bin)
  if(SLUICE_NVCC)
    get_filename_component(cuda_root ${SLUICE_NVCC} REALPATH)
    get_filename_component(cuda_root ${cuda_root} DIRECTORY)
    get_filename_component(cuda_root ${cuda_root} DIRECTORY)
    execute_process(COMMAND ${SLUICE_NVCC} --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" _ "${nvcc_version}")
    set(cuda_version ${CMAKE_MATCH_1})
    set(SLUICE_NVCC_VERSION ${cuda_version})
    find_path(SLUICE_CUDA_INCLUDE cuda_runtime_api.h PATHS ${cuda_root}/include NO_DEFAULT_PATH)
    find_library(SLUICE_CUDART cudart_static PATHS ${cuda_root}/lib64 ${cuda_root}/lib NO_DEFAULT_PATH)
    # 12.5 has all that is called (cudaGetDriverEntryPointByVersion is its newest), for drivers of 555 and later; nothing
    # was tried with a version before 13.0, so it is taken only where CUDA is asked for.
    set(least_cuda_version 13.0)
    if(SLUICE_CUDA STREQUAL "ON")
      set(least_cuda_version 12.5)
    endif()
    if(cuda_version VERSION_GREATER_EQUAL ${least_cuda_version} AND SLUICE_CUDA_INCLUDE AND SLUICE_CUDART)
      set(SLUICE_HAVE_CUDA TRUE)
    endif()
  endif()
endif()

if(SLUICE_HAVE_CUDA)
  message(STATUS "NVIDIA GPUs: yes, with nvcc ${cuda_version} (${SLUICE_NVCC})")
  add_library(sluice_cudart INTERFACE)
  target_include_directories(sluice_cudart SYSTEM INTERFACE ${SLUICE_CUDA_INCLUDE})
  if(SLUICE_CUDA STREQUAL "EMULATED")
    target_link_libraries(sluice_cudart INTERFACE sluice_tests_gpu_emulator_runtime)
    target_compile_definitions(sluice_cudart INTERFACE SLUICE_EMULATED_GPU)
  else()
    target_link_libraries(sluice_cudart INTERFACE ${SLUICE_CUDART} Threads::Threads ${CMAKE_DL_LIBS} rt)
  endif()
elseif(SLUICE_CUDA MATCHES "^(ON|EMULATED)$")
  message(FATAL_ERROR "SLUICE_CUDA is ${SLUICE_CUDA}, and no nvcc of CUDA 13 or later (ON: 12.5) was found; CUDA_HOME may name its folder")
elseif(SLUICE_CUDA STREQUAL "OFF")
  message(STATUS "NVIDIA GPUs: no, SLUICE_CUDA is OFF")
else()
  message(STATUS "NVIDIA GPUs: no, nvcc of CUDA 13 or later was not found")
endif()

# sluice_cuda_library(NAME x SRCS a.cu ... INCLUDES folder ...): a static library of what nvcc makes of the sources.
# Multiply-adds are fused only where the code says so, as on the host. What ptxas says of registers, spills and shared
# memory lies beside each object: a.cu.o.ptxas.
function(sluice_cuda_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;INCLUDES" ${ARGN})
  set(flags -std=c++20 -O3 --fmad=false --expt-relaxed-constexpr -Xptxas -v -Xcompiler -fPIC -Xcompiler -ffp-contract=off
    -I${PROJECT_SOURCE_DIR})
  foreach(folder ${ARG_INCLUDES})
    list(APPEND flags -I${folder})
  endforeach()
  set(launcher)
  if(SLUICE_CCACHE)
    set(launcher ${SLUICE_CCACHE})
  endif()
  set(objects)
  foreach(source ${ARG_SRCS})
    get_filename_component(stem ${source} NAME)
    get_filename_component(path ${source} ABSOLUTE)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${stem}.o)
    set(code ${SLUICE_DEVICE_CODE})
    if(stem MATCHES "_hopper\\.cu$")
      set(code ${SLUICE_HOPPER_DEVICE_CODE})
    endif()
    set(command ${launcher} ${SLUICE_NVCC} ${flags} ${code} -MD -MF ${object}.d -c ${path} -o ${object})
    list(TRANSFORM command PREPEND "'")
    list(TRANSFORM command APPEND "'")
    list(JOIN command " " command)
    add_custom_command(
      OUTPUT ${object}
      COMMAND sh -c "${command} >'${object}.ptxas' 2>&1 || { cat '${object}.ptxas' >&2; exit 1; }"
      DEPENDS ${path}
      DEPFILE ${object}.d
      COMMENT "Building CUDA object ${stem}.o"
      VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(${ARG_NAME} STATIC ${objects})
  set_target_properties(${ARG_NAME} PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(${ARG_NAME} PUBLIC sluice_cudart)
endfunction()
