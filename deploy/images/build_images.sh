#!/usr/bin/env bash
# build_images.sh [--programs BUILD]: builds the image in build/images, as an OCI layout and as an archive that `ctr images
# import` and `docker load` take. With --programs, from those that are in the folder BUILD of this machine, a Debian 12, and not
# from the sources: in a minute, but without the flags that harden a release. Needs root, or a user who may map users
# (/etc/subuid): Debian's buildah, runc, skopeo and mmdebstrap; no registry and no daemon.
#
# The same commit, on the same Debian packages, gives the same digest, wherever and whenever.
set -euo pipefail
case ${1:-} in
  --programs) programs=$(realpath "${2:?--programs needs a folder}") ;;
  '') programs= ;;
  *) echo "build_images.sh: unknown argument $1; accepted: --programs BUILD" >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/build/images
mkdir -p "$work/context"
say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
revision=$(git rev-parse HEAD)$([ -z "$(git status --porcelain)" ] || echo -dirty)
version=$(sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
store() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver "${SLUICE_STORAGE_DRIVER:-overlay}" "$@"; }
build() {
  store bud --isolation oci --runtime runc --network none --layers=false --quiet --timestamp "$SOURCE_DATE_EPOCH" --format oci "$@"
}

# Debian's own layout of a system, with the packages to build with; made again where the list changed.
make_base() {
  local packages stamp=$work/base.packages
  packages=$(awk '$1 == "build" || $1 == "http" { printf "%s,", $2 }' deploy/packages.txt)ca-certificates,ccache
  if [ -s "$work/context/base.tar" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$packages" ]; then return; fi
  say "making a Debian base"
  mmdebstrap --quiet --variant=apt --include="$packages" bookworm "$work/base.part.tar"
  mv "$work/base.part.tar" "$work/context/base.tar"
  echo "$packages" >"$stamp"
}

# What git knows and what it would take up: nothing else of this folder can reach the image.
copy_source() {
  rm -rf "$work/context/source"
  mkdir "$work/context/source"
  git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
    [ -e "$file" ] && printf '%s\0' "$file"
  done | tar --null -T - -cf - | tar -C "$work/context/source" -xf -
}

build_root() {
  make_base
  copy_source
  mkdir -p "$work/ccache" "$work/result"
  say "building the programs of sluice $version"
  build --volume "$work/ccache:/ccache:rw" --volume "$work/result:/result:rw" --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
    --tag sluice-build --file deploy/images/Containerfile.build "$work/context" >"$work/build.id"
  mv "$work/result/root.tar" "$work/context/root.tar"
}

collect_root() {
  say "collecting the programs in $programs"
  rm -rf "$work/root"
  deploy/images/lay_out.sh "$programs" "$work/root"
  deploy/images/pack_root.sh "$work/root" "$work/context/root.tar"
  rm -rf "$work/root"
}

if [ -n "$programs" ]; then collect_root; else build_root; fi
say "building the image of sluice $version"
mkdir -p "$work/final"
mv "$work/context/root.tar" "$work/final/root.tar"
build --build-arg VERSION="$version" --build-arg REVISION="$revision" --tag "sluice:$version" --file deploy/images/Containerfile \
  "$work/final" >"$work/sluice.id"
rm -rf "$work/oci"
store push --quiet --format oci "sluice:$version" "oci:$work/oci:sluice:$version"
store push --quiet "sluice:$version" "docker-archive:$work/sluice.part.tar:docker.io/library/sluice:$version"
mv "$work/sluice.part.tar" "$work/sluice.tar"

digest=$(skopeo inspect --format '{{.Digest}}' "oci:$work/oci:sluice:$version")
echo "sluice:$version $digest $(($(stat -c %s "$work/sluice.tar") / 1000000)) MB"
echo "  root.tar $(sha256sum "$work/final/root.tar" | cut -d' ' -f1)"
echo "  oci:$work/oci:sluice:$version"
echo "  $work/sluice.tar"
