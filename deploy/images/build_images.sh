#!/usr/bin/env bash
# build_images.sh: builds the images in build/images, each as an OCI layout and as an archive that `ctr images import` and
# `docker load` take. Needs root, or a user who may map users (/etc/subuid): Debian's buildah, runc, skopeo and mmdebstrap;
# no registry and no daemon.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$PWD/build/images
mkdir -p "$work/context" "$work/ccache"
say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
revision=$(git rev-parse HEAD)$([ -z "$(git status --porcelain)" ] || echo -dirty)
version=$(sed -n 's/^project(sluice VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)

# Debian's own layout of a system, with the packages to build with; made again where the list changed.
packages=$(awk '$1 == "build" || $1 == "http" { printf "%s,", $2 }' deploy/packages.txt)ca-certificates,ccache
stamp=$work/base.packages
if [ ! -s "$work/context/base.tar" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$packages" ]; then
  say "making a Debian base"
  mmdebstrap --quiet --variant=apt --include="$packages" bookworm "$work/base.part.tar"
  mv "$work/base.part.tar" "$work/context/base.tar"
  echo "$packages" >"$stamp"
fi

# What git knows and what it would take up, with one time for all: nothing else of this folder can reach the image.
rm -rf "$work/context/source"
mkdir "$work/context/source"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  [ -e "$file" ] && printf '%s\0' "$file"
done | tar --null -T - -cf - | tar -C "$work/context/source" -xf -
cp deploy/images/Containerfile "$work/context/Containerfile"

store() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver "${SLUICE_STORAGE_DRIVER:-overlay}" "$@"; }
say "building sluice $version"
store bud --isolation oci --runtime runc --network none --layers=false --quiet --timestamp "$SOURCE_DATE_EPOCH" --format oci \
  --volume "$work/ccache:/ccache:rw" --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
  --build-arg VERSION="$version" --build-arg REVISION="$revision" \
  --tag "sluice:$version" --file "$work/context/Containerfile" "$work/context" >"$work/sluice.id"
rm -rf "$work/oci"
store push --quiet --format oci "sluice:$version" "oci:$work/oci:sluice:$version"
store push --quiet "sluice:$version" "docker-archive:$work/sluice.part.tar:docker.io/library/sluice:$version"
mv "$work/sluice.part.tar" "$work/sluice.tar"

digest=$(skopeo inspect --format '{{.Digest}}' "oci:$work/oci:sluice:$version")
bytes=$(store inspect --type image --format '{{.OCIv1.RootFS.DiffIDs}}' "sluice:$version" >/dev/null && stat -c %s "$work/sluice.tar")
echo "sluice:$version $digest $((bytes / 1000000)) MB"
echo "  oci:$work/oci:sluice:$version"
echo "  $work/sluice.tar"
