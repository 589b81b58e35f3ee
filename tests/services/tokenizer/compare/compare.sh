#!/usr/bin/env bash
# Encodes English prose with the GPT-2 and Llama 3 vocabularies, single-threaded, and prints the throughput beside that
# of tiktoken (npm `tiktoken`, WebAssembly) and of Hugging Face's Rust library (npm `tokenizers`) in the same run. All
# must give the same tokens. Needs node, npm and, once, the network: the packages go into a temporary folder.
#
#   compare.sh BENCH TESTDATA      build/release/bin/sluice-tokenizer-bench and ../shared by default
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../../.." && pwd)
bench=$(realpath "${1:-$root/build/release/bin/sluice-tokenizer-bench}")
data=$(realpath "${2:-$root/../shared}")
folder=${TMPDIR:-/tmp}/sluice-tokenizer-compare
mkdir -p "$folder"
cd "$folder"
[ -f package.json ] || npm init -y >/dev/null
[ -d node_modules/tokenizers ] && [ -d node_modules/tiktoken ] ||
  npm install --silent --no-fund --no-audit tiktoken tokenizers@0.23 >&2
NODE_PATH=$folder/node_modules RAYON_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false \
  node "$here/compare.js" "$bench" "$data"
