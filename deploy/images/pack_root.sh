#!/bin/sh
# pack_root.sh ROOT TAR: the same files give the same bytes: in the order of their names, with one time, nobody's.
set -eu
LC_ALL=C tar --directory "$1" --sort=name --mtime="@${SOURCE_DATE_EPOCH:?}" --owner=0 --group=0 --numeric-owner \
  --format=posix --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime -cf "$2.part" .
mv "$2.part" "$2"
