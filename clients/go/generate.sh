#!/bin/sh
# Makes the package sluice/v1 from the protos, beside this file.
# Needs protoc, protoc-gen-go and protoc-gen-go-grpc (Debian: protobuf-compiler, protoc-gen-go-1-5, protoc-gen-go-grpc).
set -eu
cd "$(dirname "$0")"
protos=${SLUICE_PROTOS:-../../protos}
# The public API: what imports the rest of it, and that.
files=$(protoc -I "$protos" --descriptor_set_out=/dev/null --dependency_out=/dev/stdout sluice/v1/embed.proto |
  grep -o 'sluice/v1/[a-z_]*\.proto' | sort -u)
options=
for file in $files; do options="$options,M$file=sluice/v1"; done
protoc -I "$protos" --go_out=module=sluice$options:. --go-grpc_out=module=sluice$options:. \
  $files
