#!/bin/sh
# build.sh RESULT: inside the build stage, builds Sluice and leaves the image's root as RESULT/root.tar, and where CUDA is
# mounted, in /usr/local/cuda, that of the image for GPUs as RESULT/root-cuda.tar.
set -eu
here=$(dirname "$0")
# All at once and from nothing, which is quicker without a compiler cache, and the same wherever it is done.
cmake --preset package -DSLUICE_CCACHE=OFF >/dev/null
cmake --build build/package
"$here/lay_out.sh" build/package /root-of-image
"$here/pack_root.sh" /root-of-image "$1/root.tar"
