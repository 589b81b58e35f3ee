#!/usr/bin/env bash
# Makes a folder with which gpu-prove runs on another x86-64 Linux machine that has a GPU, Python 3.8 and none of our
# packages: ./dev gpu-bundle [--without-model] [FOLDER]. Programs and tests of build/release travel stripped, with every library
# they need, the C library and its loader for machines whose own is older, the embedded model, and the scripts. Without the model it
# is a quarter smaller, for a folder within a checkout that travels with it, as build/gpu-bundle is: it takes the checkout's.
# bundle.sh [--without-model] [FOLDER [BUILD]]: of another build.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
with_model=true
if [ "${1:-}" = --without-model ]; then
  with_model=false
  shift
fi
out=${1:-$root/build/gpu-bundle}
build=${2:-$root/build/release}
most_bytes=$((60 * 1000 * 1000))

programs=(sluice sluice-{tokenizer,embedding,shard,sampler,orchestrator} sluice-{kernel-bench,gpu-bench,random-model})
[ -e "$build/bin/sluice-gpu-ceilings" ] && programs+=(sluice-gpu-ceilings)

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/bin/elf" "$stage/tests/elf" "$stage/lib" "$stage/libc"

# Parts of the C library: used together, and only where the machine's own are older.
parts_of_libc=(libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2 libutil.so.1)
is_of_libc() { case " ${parts_of_libc[*]} " in *" $1 "*) true ;; *) false ;; esac }

# put_program FILE FOLDER: the program, and a script that starts it with the loader of the bundle.
put_program() {
  local name
  name=$(basename "$1")
  strip -o "$stage/$2/elf/$name" "$1"
  patchelf --force-rpath --set-rpath "\$ORIGIN/../../lib" "$stage/$2/elf/$name"
  cat >"$stage/$2/$name" <<'WRAPPER'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
libraries=$here/../libc:$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
exec "$here/ld-linux-x86-64.so.2" --library-path "$libraries" "$here/elf/$(basename "$0")" "$@"
WRAPPER
  chmod +x "$stage/$2/$name"
}

# put_library NAME PATH: once.
put_library() {
  local folder=lib
  is_of_libc "$1" && folder=libc
  [ ! -e "$stage/$folder/$1" ] || return 0
  strip -o "$stage/$folder/$1" "$2"
  [ $folder = libc ] || patchelf --force-rpath --set-rpath "\$ORIGIN" "$stage/$folder/$1"
}

libraries_of() { ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }'; }

# put_libraries FILE: what it needs, however far down.
put_libraries() {
  libraries_of "$1" | while read -r name path; do put_library "$name" "$path"; done
}

for program in "${programs[@]}"; do
  put_program "$build/bin/$program" bin
  put_libraries "$build/bin/$program"
done
while read -r pattern; do
  for test in "$build"/tests/$pattern; do
    [ -x "$test" ] && [ -f "$test" ] || continue
    put_program "$test" tests
    put_libraries "$test"
  done
done < <(cd "$root/tests/gpu" && /usr/bin/python3 -B -c 'import test_programs; print("\n".join(test_programs.TESTS))')
# All of them, for libraries of the machine that are opened later, as its driver and cuBLASLt, name some that our programs do
# not: the machine's own would not go with the C library of the bundle.
libc_folder=$(dirname "$(libraries_of "$build/bin/sluice" | awk '$1 == "libc.so.6" { print $2 }')")
for name in "${parts_of_libc[@]}"; do put_library "$name" "$libc_folder/$name"; done
loader=$(readlink -f /lib64/ld-linux-x86-64.so.2)
for folder in bin tests; do cp "$loader" "$stage/$folder/ld-linux-x86-64.so.2"; done
mkdir -p "$stage/tests/golden"
cp "$root"/tests/golden/*.json "$stage/tests/golden/"
# Whole models and what the oracle computes of them: a family each, some 25 MB. Only where the oracle is at hand.
oracle=${SLUICE_TESTDATA:-$root/../shared}/oracle
presets=(llama llama-bias llama-yarn llama-dynamic mistral-window qwen2 qwen3 smollm3 phi3-longrope-partial gemma gemma2 ministral3 phi-qk_norm granite gpt2 gpt_neox
  sluice-sinusoidal-layernorm-gelu)
contents=(bin tests lib libc)
if $with_model; then
  mkdir "$stage/models"
  cp -r "$root/models/storyteller" "$stage/models/"
  contents+=(models)
fi
if [ -d "$oracle" ] && /usr/bin/python3 -c 'import numpy' 2>/dev/null; then
  mkdir "$stage/oracle"
  /usr/bin/python3 -B "$root/tests/golden/oracle_models.py" "$oracle" "$stage/oracle" "${presets[@]/%/:F32}" "${presets[@]/%/:BF16}"
  contents+=(oracle)
fi
# The oldest C library that the programs run with is the one that they were linked with.
ldd --version | sed -n '1s/.* //p' >"$stage/libc/version"

rm -rf "$out"
mkdir -p "$out"
# Every program that computes has the same kernels in it: a window that reaches back over several keeps them once.
cp "$root"/tests/gpu/{run,context,ceilings,products,test_programs,serving,speeds,parts,prove,sass}.py "$root/tests/gpu/session.sh" \
  "$root/tests/testing/pipeline.py" "$out/"
tar -C "$stage" --sort=name --owner=0 --group=0 --mtime=@0 -cf - "${contents[@]}" |
  xz -T1 --lzma2=preset=1,dict=64MiB >"$out/payload.tar.xz"
cp "$root/tests/gpu/bundle_run.py" "$out/run"
chmod +x "$out/run"
cat >"$out/README" <<'README'
./run shows on this machine what only a machine with a GPU can show, within ten minutes, and writes gpu-prove.json here.
./session.sh first, and then second, is the order of a quarter of an hour (its first lines say what it does).
./run --help names its flags, ./run --list its parts. ./run -- PROGRAM ARGUMENTS runs one of Sluice's programs or tests, such as
./run -- sluice run "Once upon a time" --device cuda --model models/storyteller.
Needs x86-64 Linux, Python 3.8, and for the GPU's part an NVIDIA driver for CUDA 13. libnccl.so.2 and libcublasLt.so.13 (or 12)
are used where the loader finds them, LD_LIBRARY_PATH included, and the latter also among the packages of this Python.
README

bytes=$(du -sb "$out" | cut -f1)
echo "$out: $((bytes / 1000 / 1000)) MB, $(ls "$stage/bin/elf" | wc -l) programs, $(ls "$stage/tests/elf" | wc -l) tests"
if [ "$bytes" -gt "$most_bytes" ]; then
  echo "bundle.sh: that is more than $((most_bytes / 1000 / 1000)) MB" >&2
  exit 1
fi
# What travels to a GPU with a checkout has one limit for both: the files that git does not ignore, and this folder.
most_with_checkout=$((64 << 20))
case $out in
  "$root"/*)
    checkout=$(cd "$root" && git ls-files -z --cached --others --exclude-standard | du -cb --files0-from=- | tail -n 1 | cut -f1)
    echo "bundle.sh: $((bytes + checkout)) bytes with the checkout, of $most_with_checkout"
    if [ $((bytes + checkout)) -gt $most_with_checkout ]; then
      echo "bundle.sh: that is too much for both: build with SLUICE_CUDA_CODE=90a, or name a folder elsewhere" >&2
      exit 1
    fi
    ;;
esac
