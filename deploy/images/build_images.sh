#!/usr/bin/env bash
# build_images.sh [--programs BUILD]: builds the image `sluice` in build/images and, where this machine has CUDA 13 ($CUDA_HOME,
# by default /usr/local/cuda), the image `sluice-cuda`: each as an OCI layout and as an archive that `ctr images import` and
# `docker load` take. With --programs, from those that are in the folder BUILD of this machine, a Debian 12, and not from the
# sources: in a minute, but without the flags that harden a release; `sluice-cuda` too where BUILD was built with CUDA. Needs
# root, or a user who may map users (/etc/subuid): Debian's buildah, runc, skopeo and mmdebstrap; no registry and no daemon.
#
# Beside each archive lie its SPDX list, its provenance, and the file `digests` over all of them, signed with the key that
# SLUICE_SIGNING_KEY names (sign_images.sh, verify_images.sh).
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
cuda=$(realpath "${CUDA_HOME:-/usr/local/cuda}")
say() { printf '\033[1m==> %s\033[0m\n' "$*" >&2; }

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
how=$([ -n "$programs" ] && echo programs || echo sources)
revision=$(git rev-parse HEAD)$([ -z "$(git status --porcelain)" ] || echo -dirty)
version=$(cat VERSION)
store() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver "${SLUICE_STORAGE_DRIVER:-overlay}" "$@"; }
build() {
  store bud --isolation oci --runtime runc --network none --layers=false --timestamp "$SOURCE_DATE_EPOCH" --format oci "$@"
}

# Debian's own layout of a system, with the packages to build with; made again where the list changed.
make_base() {
  local packages stamp=$work/base.packages
  packages=$(awk '$1 == "build" || $1 == "http" { printf "%s,", $2 }' deploy/packages.txt)ca-certificates
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
  mkdir -p "$work/result"
  say "building the programs of sluice $version"
  local mounts=(--volume "$work/result:/result:rw")
  rm -f "$work"/result/*
  if [ -x "$cuda/bin/nvcc" ]; then mounts+=(--volume "$cuda:/usr/local/cuda:ro"); fi
  build "${mounts[@]}" --build-arg SOURCE_DATE_EPOCH="$SOURCE_DATE_EPOCH" \
    --tag sluice-build --file deploy/images/Containerfile.build "$work/context" >&2
}

collect_root() {
  say "collecting the programs in $programs"
  rm -rf "$work/root" "$work/result"
  mkdir -p "$work/result"
  deploy/images/lay_out.sh "$programs" "$work/root"
  deploy/images/pack_root.sh "$work/root" "$work/result/root.tar"
  if [ -x "$programs/bin/sluice-gpu-ceilings" ]; then
    deploy/images/add_nccl.sh "$cuda" "$work/root"
    deploy/images/pack_root.sh "$work/root" "$work/result/root-cuda.tar"
  fi
  rm -rf "$work/root"
}

# make_image NAME ROOT FLAG...: the image NAME of what lies in ROOT.tar.
make_image() {
  local name=$1 root=$2 digest
  shift 2
  say "making the image $name $version"
  mkdir -p "$work/final"
  mv "$work/result/$root.tar" "$work/final/root.tar"
  build --quiet --build-arg NAME="$name" --build-arg VERSION="$version" --build-arg REVISION="$revision" "$@" --tag "$name:$version" \
    --file deploy/images/Containerfile "$work/final" >"$work/$name.id"
  store push --quiet --format oci "$name:$version" "oci:$work/oci:$name:$version"
  store push --quiet "$name:$version" "docker-archive:$work/$name.part.tar:docker.io/library/$name:$version"
  mv "$work/$name.part.tar" "$work/$name.tar"
  digest=$(skopeo inspect --format '{{.Digest}}' "oci:$work/oci:$name:$version")
  tar -xOf "$work/final/root.tar" ./usr/share/sluice/sbom.spdx.json >"$work/$name.spdx.json"
  deploy/images/write_provenance.sh "$name" "$version" "$digest" "$revision" "$how" \
    "$work/$name.spdx.json" >"$work/$name.provenance.json"
  echo "$name:$version $digest $(($(stat -c %s "$work/$name.tar") / 1000000)) MB"
  echo "  root.tar $(sha256sum "$work/final/root.tar" | cut -d' ' -f1)"
  echo "  oci:$work/oci:$name:$version"
  echo "  $work/$name.tar"
}

if [ -n "$programs" ]; then collect_root; else build_root; fi
rm -rf "$work/oci" "$work"/*.provenance.json "$work"/*.spdx.json "$work"/digests*
make_image sluice root
if [ -e "$work/result/root-cuda.tar" ]; then
  # What the container toolkit of a node with GPUs goes by.
  make_image sluice-cuda root-cuda --env NVIDIA_VISIBLE_DEVICES=all --env NVIDIA_DRIVER_CAPABILITIES=compute,utility
fi
deploy/images/sign_images.sh "$work"
