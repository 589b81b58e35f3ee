#!/bin/sh
# build.sh RESULT: inside the build stage, builds Sluice and leaves the image's root as RESULT/root.tar, and where CUDA is
# mounted, in /usr/local/cuda, that of the image for GPUs as RESULT/root-cuda.tar.
set -eu
here=$(dirname "$0")
result=$1

# build_root CUDA NAME
build_root() {
  cmake --preset package -DSLUICE_CUDA="$1" >/dev/null
  cmake --build build/package
  "$here/lay_out.sh" build/package "/root-of-$2"
  if [ "$1" = ON ]; then "$here/add_nccl.sh" /usr/local/cuda "/root-of-$2"; fi
  "$here/pack_root.sh" "/root-of-$2" "$result/$2.tar"
}

build_root OFF root
if [ -x /usr/local/cuda/bin/nvcc ]; then build_root ON root-cuda; fi
