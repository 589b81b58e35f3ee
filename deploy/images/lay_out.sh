#!/bin/sh
# lay_out.sh BUILD OUT: the image's whole root, in the new folder OUT, from the programs in BUILD.
set -eu
build=$1
out=$2
here=$(dirname "$0")
[ ! -e "$out" ] || { echo "lay_out.sh: $out is there already" >&2; exit 1; }
# What programs in C++ are built with stays outside.
DESTDIR=$out cmake --install "$build" --prefix /usr --strip --component Unspecified >/dev/null
# What kills processes for a demonstration is not for a cluster.
rm -f "$out/usr/bin/sluice-gateway-demo"
# No shell completes in here, nobody reads manuals, nothing starts units.
rm -rf "$out/usr/share/man" "$out/usr/share/sluice/systemd" "$out/usr/share/bash-completion" "$out/usr/share/zsh" "$out/usr/share/fish" "$out/usr/lib/systemd"
"$here/collect_libraries.sh" "$out"
"$here/write_spdx.sh" "$out" >"$out/usr/share/sluice/sbom.spdx.json"
