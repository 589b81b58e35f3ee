#!/bin/sh
# sign_images.sh FOLDER: writes FOLDER/digests, a line of SHA-256 for each archive (*.tar), SPDX list (*.spdx.json) and provenance
# (*.provenance.json) there, and for each image's manifest, which is what `image@sha256:...` in a cluster names. With
# SLUICE_SIGNING_KEY, a file with an Ed25519 key in PEM (`openssl genpkey -algorithm ed25519`), signs it into FOLDER/digests.sig;
# without, removes an old signature. verify_images.sh checks both.
set -eu
cd "$1"
rm -f digests.sig
{
  for file in *.tar *.spdx.json *.provenance.json; do
    [ -e "$file" ] && sha256sum "$file"
  done
  sed -n 's/.*"subject": \[{"name": "\([^"]*\)", "digest": {"sha256": "\([0-9a-f]*\)"}}\].*/\2  manifest of \1/p' ./*.provenance.json
} >digests
if [ -z "${SLUICE_SIGNING_KEY:-}" ]; then
  echo "digests is not signed: SLUICE_SIGNING_KEY names no key" >&2
else
  openssl pkeyutl -sign -rawin -inkey "$SLUICE_SIGNING_KEY" -in digests -out digests.sig
fi
