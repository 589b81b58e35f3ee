#!/bin/sh
# collect_libraries.sh OUT: copies to OUT what its programs need from the machine that runs this: shared libraries, the
# loader, CA certificates, and the few files that the C library reads. Writes the list of the packages they come from to
# OUT/usr/share/sluice/packages.
set -eu
out=$1
from=$(mktemp)

# Folders as Debian merges them.
mkdir -p "$out/usr/lib" "$out/usr/lib64" "$out/etc/ssl/certs" "$out/tmp"
ln -s usr/lib "$out/lib"
ln -s usr/lib64 "$out/lib64"
chmod 1777 "$out/tmp"

# "/lib/x86_64-linux-gnu/libc.so.6" of each line of ldd, the loader's included.
ldd "$out"/usr/bin/* | sed -n 's/.*\(\(=> \)\|\t\)\(\/[^ ]*\) (.*/\3/p' | sort -u >"$from"
while read -r library; do
  case $library in
    /usr/*) target=$library ;;
    *) target=/usr$library ;;
  esac
  install -D -m 755 "$library" "$out$target"
done <"$from"
# The loader is named by its path in every program.
loader=$(readelf -l "$out/usr/bin/sluice" | sed -n 's/.*interpreter: \(.*\)]/\1/p')
[ -e "$out$loader" ] || install -D -m 755 "$loader" "$out/usr$loader"

install -D -m 644 /etc/ssl/certs/ca-certificates.crt "$out/etc/ssl/certs/ca-certificates.crt"
echo 'hosts: files dns' >"$out/etc/nsswitch.conf"
echo 'sluice:x:65532:65532:Sluice:/tmp:/sbin/nologin' >"$out/etc/passwd"
echo 'sluice:x:65532:' >"$out/etc/group"

# dpkg knows a file by the path that its package has, before folders were merged.
{
  while read -r library; do
    real=$(readlink -f "$library")
    dpkg-query -S "$real" 2>/dev/null || dpkg-query -S "${real#/usr}" 2>/dev/null || dpkg-query -S "$library"
  done <"$from"
  echo "ca-certificates:"
} | sed 's/: .*//; s/:.*//' | sort -u >"$out/usr/share/sluice/packages"
rm "$from"
