#!/usr/bin/env bash
# A quarter of an hour with a GPU, in two commands of less than ten minutes: session.sh [FLAGS] first|second|dry.
#
#   --device DEVICE    default cuda:0; cpu tries the script with small models
#   --out DIR          where everything is written as it is seen (default ./session): session.txt says what each step came to,
#                      gpu-prove.json what it showed, STEP.log all that it wrote
#   --large_model DIR  random weights in the shape of Llama-3.1-8B; made where they are missing (default /dev/shm/sluice-8b)
#   --seconds N        in all (default 560); each step ends within its own limit and within what is left of these
#
# first: the machine; each way to multiply; then, if one is right, kernels beside their predictions, plans against each other,
# tests with 4 multiprocessors and with all, and 8B through the whole pipeline. second: ranks, deaths, one process against
# several, with and without MPS, compute-sanitizer. dry: every step of both that a CPU can take, in CI's time.
# Runs in a bundle (bundle.sh) and in a checkout that was built. Exit code 0: every step did what it should.
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
device=cuda:0 out=session large=/dev/shm/sluice-8b seconds=560 part=
while [ $# -gt 0 ]; do
  case "$1" in
    --device) device=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --large_model) large=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    first | second | dry) part=$1; shift ;;
    *) echo "session.sh: \"$1\"; accepted: --device, --out, --large_model, --seconds, first, second, dry" >&2; exit 2 ;;
  esac
done
[ -n "$part" ] || { echo "session.sh: first, second or dry" >&2; exit 2; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
end=$((SECONDS + seconds))
wrong=0

if [ -e "$here/run" ] && [ -e "$here/payload.tar.xz" ]; then
  prove=("$here/run") program=("$here/run" --)
else
  root=$(cd "$here/../.." && pwd)
  build=${SLUICE_BUILD:-$root/build/release}
  prove=(/usr/bin/python3 -B "$here/prove.py" --bin "$build/bin" --tests "$build/tests")
  program=(env "PATH=$build/bin:$build/tests:$PATH")
fi
prove+=(--device "$device" --large_model "$large" --logs "$out/logs")
scale=full shape=llama3.1-8b
[ "$device" = cpu ] && scale=small shape=small

say() { printf '%s\n' "$*" | tee -a "$out/session.txt"; }

# step NAME SECONDS COMMAND...: within so many seconds and the session's; all that it writes in NAME.log.
step() {
  local name=$1 limit=$2 begin=$SECONDS code=0
  shift 2
  [ "$limit" -le $((end - SECONDS)) ] || limit=$((end - SECONDS))
  if [ "$limit" -lt 3 ]; then
    say "$name: no time was left"
    return 1
  fi
  timeout -k 5 "$limit" "$@" >"$out/$name.log" 2>&1 </dev/null || code=$?
  case $code in
    0) say "$name: done after $((SECONDS - begin)) s" ;;
    77) say "$name: skipped" ; return 0 ;;
    124 | 137) say "$name: cut short after $((SECONDS - begin)) s" ;;
    *) say "$name: failed with $code after $((SECONDS - begin)) s: $(tail -n 1 "$out/$name.log" | cut -c 1-300)"; wrong=1 ;;
  esac
  return $code
}

# parts NAME SECONDS PARTS [FLAGS]: of gpu-prove, which is told to end a little earlier, and writes what it has seen.
parts() {
  local name=$1 limit=$2 only=$3
  shift 3
  [ "$limit" -le $((end - SECONDS)) ] || limit=$((end - SECONDS))
  step "$name" "$limit" "${prove[@]}" --only "$only" --minutes "$(awk "BEGIN { print ($limit - 12) / 60 }")" \
    --out "$out/gpu-prove.json" "$@"
}

facts() {
  date
  uname -a
  lscpu
  free -g
  df -h /dev/shm /tmp "$out"
  nvidia-smi && nvidia-smi -q
  ls -l /usr/local/cuda/bin
}

# What machine code does, by the CPU meanwhile: see sass.py.
begin_sass() {
  local file
  for file in "$here/unpacked/bin/elf/sluice-gpu-bench" "${build:-/nowhere}/bin/sluice-gpu-bench"; do
    [ -e "$file" ] || continue
    (nice timeout 300 /usr/bin/env python3 -B "$here/sass.py" "$file" >"$out/sass.txt" 2>"$out/sass.log") &
    return
  done
}

begin_weights() {
  [ -e "$large" ] && return
  (nice "${program[@]}" sluice-random-model "$shape" "$large.part" >"$out/weights.log" 2>&1 && mv "$large.part" "$large") &
}

# Whether a way to multiply is right, by what the part `products` wrote.
any_way_is_right() {
  [ "$device" = cpu ] || grep -q '": "good after' "$out/gpu-prove.json"
}

# None is: what a mended bundle needs to know, and then the end, which leaves the time for that one.
look_closer() {
  local way
  export SLUICE_TEST_SELF_CHECK=off SLUICE_TEST_DEVICE=$device
  for way in Portable Hopper Pipelined Fp8; do
    step "closer-$way" 40 "${program[@]}" kernels_cuda_cuda_gpu_test "--gtest_filter=*/$way"
  done
  SLUICE_TEST_GPU_INSTRUCTIONS=mma step closer-operations 40 "${program[@]}" kernels_backend_norm_test
  SLUICE_TEST_GPU_INSTRUCTIONS=mma step closer-products 40 "${program[@]}" kernels_backend_gemm_test
  SLUICE_TEST_GPU_INSTRUCTIONS=mma parts closer-sanitizer 90 sanitizer
  say "no way to multiply is right: what follows needs one"
  wrong=1
}

first() {
  step facts 20 bash -c "$(declare -f facts); out='$out' facts"
  # The programs are unpacked by the first that needs them.
  step unpack 60 "${prove[@]}" --list
  begin_sass
  begin_weights
  parts products 125 products
  if ! any_way_is_right; then
    look_closer
    return
  fi
  parts kernel-speed 110 kernel-speed
  step tuning 60 env SLUICE_TEST_DEVICE="$device" "${program[@]}" sluice-gpu-bench "$device" "$scale" --tune
  cp "$out/gpu-prove.json" "$out/multiprocessors-4.json"
  SLUICE_TEST_GPU_MULTIPROCESSORS=4 parts tests-4 90 kernels,models --out "$out/multiprocessors-4.json"
  parts tests 90 kernels,models
  parts speed 130 speed
  parts machine 45 machine
}

second() {
  begin_weights
  parts ranks 100 ranks,fp8
  parts death 70 death,errors
  parts one-process 100 one-process
  if command -v nvidia-cuda-mps-control >/dev/null && nvidia-cuda-mps-control -d; then
    cp "$out/gpu-prove.json" "$out/mps.json"
    parts one-process-mps 90 one-process --out "$out/mps.json"
    echo quit | nvidia-cuda-mps-control
  else
    say "one-process-mps: there is no MPS here"
  fi
  parts fp8-speed 80 fp8-speed
  parts sanitizer 200 sanitizer
}

# Small: what CI has time for.
dry() {
  step facts 20 bash -c "$(declare -f facts); out='$out' facts || true"
  step unpack 60 "${prove[@]}" --list
  begin_weights
  parts products 60 products
  any_way_is_right || look_closer
  step tuning 100 "${program[@]}" sluice-gpu-bench "$device" small --only 'gemm (qkv|o) BF16 T 1$'
  parts speed 160 errors,one-process
}

say "$part on $device, $(date -u +%FT%TZ)"
"$part"
# What was begun beside: as long as there is time.
while [ -n "$(jobs -rp)" ] && [ $SECONDS -lt "$end" ]; do sleep 1; done
for job in $(jobs -rp); do kill "$job"; done
say "$part: $((seconds - end + SECONDS)) s in all"
exit $wrong
