#!/bin/sh
# release.sh FOLDER [PART...]: makes what a release consists of, in FOLDER: deb, chart, python, node, java, go, or the parts named;
# then SHA256SUMS over all of it, which SLUICE_SIGNING_KEY (a file with an Ed25519 key in PEM) signs into SHA256SUMS.sig.
# verify_release.sh checks both. `./dev release` installs what is needed, builds the Debian package, and calls this.
# SLUICE_GO_MODULE names the module of Go (default sluice.internal/client): where the folder go/ is served decides it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$1"
dist=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- deb chart python node java go
version=$(/usr/bin/python3 -B "$root/deploy/release/set_version.py")
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315532800)}
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "==> $*" >&2; }

deb() {
  ls "$root"/build/package/*.deb >/dev/null 2>&1 || { echo "release.sh: no package in build/package: ./dev package" >&2; exit 1; }
  cp "$root"/build/package/*.deb "$dist"
}

chart() { "${HELM:-$root/build/tools/helm}" package "$root/deploy/helm/sluice" --destination "$dist" >/dev/null; }

# With the generated code, so that who installs it needs no protoc.
python() {
  cp -r "$root/clients/python" "$work/python"
  SLUICE_PROTOS="$root/protos" /usr/bin/python3 -m pip wheel --quiet --no-deps --no-build-isolation --no-index \
    --wheel-dir "$dist" "$work/python"
}

node() {
  mkdir -p "$work/clients" "$work/protos"
  cp -r "$root/protos/sluice" "$work/protos"
  mkdir "$work/clients/node"
  cp -r "$root/clients/node/lib" "$root/clients/node/package.json" "$root/clients/node/README.md" "$work/clients/node"
  (cd "$work/clients/node" && npm pack --silent --pack-destination "$dist" >/dev/null)
}

java() {
  SLUICE_PROTOS="$root/protos" sh "$root/clients/java/build.sh" "$work/java" >/dev/null
  cp "$work/java/sluice-client.jar" "$dist/sluice-client-$version.jar"
  cp "$root/clients/java/pom.xml" "$dist/sluice-client-$version.pom"
}

go() { /usr/bin/python3 -B "$root/deploy/release/go_module.py" "$dist/go" "$version" "${SLUICE_GO_MODULE:-sluice.internal/client}"; }

for part in "$@"; do
  case $part in
    deb | chart | python | node | java | go) ;;
    *) echo "release.sh: unknown part $part; accepted: deb, chart, python, node, java, go" >&2; exit 2 ;;
  esac
  say "$part $version"
  "$part"
done

cd "$dist"
rm -f SHA256SUMS SHA256SUMS.sig
find . -type f | LC_ALL=C sort | sed 's|^\./||' | xargs sha256sum >"$work/sums"
mv "$work/sums" SHA256SUMS
if [ -n "${SLUICE_SIGNING_KEY:-}" ]; then
  openssl pkeyutl -sign -rawin -inkey "$SLUICE_SIGNING_KEY" -in SHA256SUMS -out SHA256SUMS.sig
else
  echo "SHA256SUMS is not signed: SLUICE_SIGNING_KEY names no key" >&2
fi
cat SHA256SUMS
