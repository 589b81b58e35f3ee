#!/usr/bin/env bash
# usage: make_sysroot.sh ARCHITECTURE FOLDER
# Unpacks the Debian 12 packages of group `sysroot` (deploy/packages.txt) for another architecture, such as arm64, in a
# folder that a cross compiler takes for the root: nothing of them is installed on this machine.
set -euo pipefail
architecture=$1 folder=$2
[ -e "$folder" ] && exit
packages=$(awk '$1 == "sysroot" { print $2 }' "$(dirname "${BASH_SOURCE[0]}")/../packages.txt" | paste -sd,)
rm -rf "$folder.part"
mkdir -p "$folder.part"
mmdebstrap --quiet --variant=extract --architectures="$architecture" --include="$packages" bookworm - |
  tar --extract --directory="$folder.part" --exclude=./dev --no-same-owner
mv "$folder.part" "$folder"
