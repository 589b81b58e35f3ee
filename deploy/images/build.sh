#!/bin/sh
# build.sh OUT: inside the build stage, builds Sluice and lays the image's whole root out in OUT.
set -eu
out=$1
here=$(dirname "$0")
cmake --preset package >/dev/null
cmake --build build/package
DESTDIR=$out cmake --install build/package --prefix /usr --strip >/dev/null
# No shell completes in here, nobody reads manuals, nothing starts units.
rm -rf "$out/usr/share/man" "$out/usr/share/bash-completion" "$out/usr/share/zsh" "$out/usr/share/fish" "$out/usr/lib/systemd"
"$here/collect_libraries.sh" "$out"
"$here/write_spdx.sh" "$out" >"$out/usr/share/sluice/sbom.spdx.json"
