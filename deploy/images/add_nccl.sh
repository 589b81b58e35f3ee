#!/bin/sh
# add_nccl.sh CUDA ROOT: copies NCCL of the toolkit in CUDA to where programs in ROOT look for it, and what it is to the list of
# what is inside. The driver's libraries are the node's: its container toolkit brings them.
set -eu
cuda=$1
root=$2
for folder in lib64 lib; do
  library=$cuda/$folder/libnccl.so.2
  [ ! -e "$library" ] || break
done
[ -e "$library" ] || { echo "add_nccl.sh: no libnccl.so.2 in $cuda/lib64 or $cuda/lib" >&2; exit 1; }
install -D -m 755 "$library" "$root/usr/local/cuda/lib64/libnccl.so.2"
sum=$(sha256sum "$library" | cut -d' ' -f1)
sbom=$root/usr/share/sluice/sbom.spdx.json
sed -i -e 's|^  "packages": \[$|&\
    {"SPDXID": "SPDXRef-nccl", "name": "nccl", "supplier": "Organization: NVIDIA", "downloadLocation": "NOASSERTION",\
     "filesAnalyzed": false, "checksums": [{"algorithm": "SHA256", "checksumValue": "'"$sum"'"}]},|' \
  -e 's|^  "relationships": \[$|&\
    {"spdxElementId": "SPDXRef-sluice", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-nccl"},|' "$sbom"
