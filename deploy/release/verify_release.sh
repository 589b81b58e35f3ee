#!/bin/sh
# verify_release.sh FOLDER [PUBLIC_KEY]: checks that every file of a release is what SHA256SUMS says, and, with a key in PEM, that its
# owner signed that.
set -eu
cd "$1"
sha256sum --check --strict --quiet SHA256SUMS
[ $# -lt 2 ] || openssl pkeyutl -verify -rawin -pubin -inkey "$2" -in SHA256SUMS -sigfile SHA256SUMS.sig >/dev/null
echo "verified: $(wc -l <SHA256SUMS) files"
