#!/bin/sh
# write_spdx.sh ROOT: what is inside an image, as SPDX 2.3 in JSON: Sluice, its model, and the Debian packages that
# ROOT/usr/share/sluice/packages names. The date is SOURCE_DATE_EPOCH's, so that the same input gives the same bytes.
set -eu
root=$1
version=$("$root/usr/bin/sluice" version | sed 's/^sluice //')
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
model=$(sha256sum "$root/usr/share/sluice/models/storyteller/model.safetensors" | cut -d' ' -f1)

cat <<JSON
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "sluice-$version",
  "documentNamespace": "urn:sluice:image:$version:$model",
  "creationInfo": {"created": "$created", "creators": ["Tool: write_spdx.sh"]},
  "packages": [
    {"SPDXID": "SPDXRef-sluice", "name": "sluice", "versionInfo": "$version", "downloadLocation": "NOASSERTION",
     "filesAnalyzed": false},
    {"SPDXID": "SPDXRef-storyteller", "name": "storyteller", "versionInfo": "$version", "downloadLocation": "NOASSERTION",
     "filesAnalyzed": false, "checksums": [{"algorithm": "SHA256", "checksumValue": "$model"}]}
JSON
xargs dpkg-query -W -f '${Package} ${Version} ${Architecture} ${source:Package} ${source:Version}\n' \
  <"$root/usr/share/sluice/packages" | sort -u |
  while read -r name installed architecture source source_version; do
    cat <<JSON
    ,{"SPDXID": "SPDXRef-deb-$(echo "$name" | tr '+_' '..')", "name": "$name", "versionInfo": "$installed",
     "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
     "sourceInfo": "built from $source $source_version",
     "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
       "referenceLocator": "pkg:deb/debian/$name@$(echo "$installed" | sed 's/+/%2B/g; s/:/%3A/g; s/~/%7E/g')?arch=$architecture"}]}
JSON
  done
cat <<JSON
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-sluice"},
    {"spdxElementId": "SPDXRef-sluice", "relationshipType": "CONTAINS", "relatedSpdxElement": "SPDXRef-storyteller"}
JSON
xargs dpkg-query -W -f '${Package}\n' <"$root/usr/share/sluice/packages" | sort -u | while read -r name; do
  printf '    ,{"spdxElementId": "SPDXRef-sluice", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-deb-%s"}\n' \
    "$(echo "$name" | tr '+_' '..')"
done
echo '  ]'
echo '}'
