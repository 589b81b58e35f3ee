#!/bin/sh
# write_provenance.sh NAME VERSION DIGEST REVISION HOW SBOM: where the image NAME:VERSION of that manifest digest (sha256:...) comes
# from, as an in-toto statement with SLSA provenance v1: the commit, how it was built (`sources` or `programs`) and the Debian
# packages that the SPDX list SBOM names. The date is SOURCE_DATE_EPOCH's, so that the same input gives the same bytes.
set -eu
name=$1 version=$2 digest=${3#sha256:} revision=$4 how=$5 sbom=$6
built=$(date -u -d "@${SOURCE_DATE_EPOCH:-0}" +%Y-%m-%dT%H:%M:%SZ)
cat <<JSON
{
  "_type": "https://in-toto.io/Statement/v1",
  "subject": [{"name": "$name:$version", "digest": {"sha256": "$digest"}}],
  "predicateType": "https://slsa.dev/provenance/v1",
  "predicate": {
    "buildDefinition": {
      "buildType": "urn:sluice:build_images.sh:1",
      "externalParameters": {"image": "$name", "from": "$how"},
      "resolvedDependencies": [
        {"uri": "git+urn:sluice", "digest": {"gitCommit": "${revision%-dirty}"}, "annotations": {"dirty": $(
  case $revision in *-dirty) echo true ;; *) echo false ;; esac)}}
JSON
# One package a line of the SPDX list.
sed -n 's/.*"referenceLocator": "\(pkg:deb[^"]*\)".*/        ,{"uri": "\1"}/p' "$sbom"
cat <<JSON
      ]
    },
    "runDetails": {
      "builder": {"id": "urn:sluice:build_images.sh"},
      "metadata": {"invocationId": "$revision", "startedOn": "$built", "finishedOn": "$built"}
    }
  }
}
JSON
