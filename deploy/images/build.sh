#!/bin/sh
# build.sh RESULT: inside the build stage, builds Sluice and leaves the image's root as RESULT/root.tar.
set -eu
here=$(dirname "$0")
cmake --preset package >/dev/null
cmake --build build/package
"$here/lay_out.sh" build/package /root-of-image
"$here/pack_root.sh" /root-of-image "$1/root.tar"
