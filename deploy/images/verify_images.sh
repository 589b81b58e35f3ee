#!/bin/sh
# verify_images.sh FOLDER PUBLIC_KEY: whether FOLDER/digests was signed by the holder of the Ed25519 key whose public part is in
# PUBLIC_KEY (PEM), and the files of FOLDER that it names are as they were then. Ends with 0 where both are so.
set -eu
key=$(realpath "$2")
cd "$1"
openssl pkeyutl -verify -rawin -pubin -inkey "$key" -in digests -sigfile digests.sig
grep -v '  manifest of ' digests | sha256sum --check --strict --ignore-missing
