#!/bin/sh
# get_api_types.sh FOLDER: puts the types of the Kubernetes 1.32 API into FOLDER/kubernetes-1.32, from npm's
# @kubernetes/client-node, known by its hash: one file for each type, made from the API server's own description. For tests
# alone: nothing that is shipped needs them. Exit status 1, with a reason, where they can't be had.
set -eu
folder=$1/kubernetes-1.32
version=1.0.0
hash=fa20792f209f44e8beca469ef3145730cab079d59db9aca6bdd7222a4831e72c
[ -d "$folder" ] && exit 0
command -v npm >/dev/null || { echo "get_api_types.sh: npm, which brings the types, is not installed" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
archive=$work/kubernetes-client-node-$version.tgz
(cd "$work" && npm pack --silent "@kubernetes/client-node@$version" >/dev/null) ||
  { echo "get_api_types.sh: npm could not fetch @kubernetes/client-node $version" >&2; exit 1; }
echo "$hash  $archive" | sha256sum --check --status ||
  { echo "get_api_types.sh: @kubernetes/client-node $version is not what it was: its hash differs" >&2; exit 1; }
tar -xzf "$archive" -C "$work"
mkdir -p "$1"
mv "$work/package/dist/gen/models" "$folder"
