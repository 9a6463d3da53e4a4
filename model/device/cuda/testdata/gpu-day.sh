#!/usr/bin/env bash
# A day with a GPU in two commands, since such a day is short.
#
#   gpu-day.sh pack             here, without a GPU: leaves all that is needed in
#                               bin/gpu-day (40 MB): test program, scalewm-cuda,
#                               their libraries, the PyTorch twin, this script
#   OUT=dir bin/gpu-day/gpu-day.sh [STAGE...]
#                               there: runs the stages, each within its minutes,
#                               and leaves every result in $OUT
#
# Stages, in their order: checks (conformance, each kernel against the reference),
# bench (steps, plans, products), peer (the same by PyTorch; needs a python3 with
# torch), profile (Nsight Compute), sanitize (compute-sanitizer), train (two
# trainings of 100 steps with the program, compared to the bit).
set -uo pipefail

pack() {
  set -e
  cd "$(dirname "${BASH_SOURCE[0]}")/../../../.."
  make cuda
  local to=bin/gpu-day fetched=$PWD/third_party/fetched
  rm -rf "$to"
  mkdir -p "$to/lib"
  CGO_CFLAGS="-O2 -g -I$fetched/nvidia_cuda_runtime_cu12/include" CGO_LDFLAGS="-O2 -g -L$fetched/cuda" \
    go test -c -tags cuda -ldflags '-s -w' -o "$to/gpu.test" ./model/device/cuda/gpu
  cp bin/scalewm-cuda model/device/cuda/testdata/{peer.py,gpu-day.sh} "$to"
  strip "$to/scalewm-cuda"
  # The C library and the driver are the machine's own.
  ldd bin/scalewm-cuda | awk '/=> \// { print $3 }' | grep -vE '/(libc|libm|libdl|libpthread|librt|libcuda)\.so' |
    xargs -I{} cp -L {} "$to/lib"
  du -sh "$to"
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# stage NAME SECONDS COMMAND...: its output goes to $OUT/NAME.txt, its end to the screen.
stage() {
  local name=$1 seconds=$2 begin=$SECONDS
  shift 2
  timeout "$seconds" "$@" >"$OUT/$name.txt" 2>&1
  echo "== $name: exit $? after $((SECONDS - begin)) s"
  tail -n 25 "$OUT/$name.txt"
}

checks() {
  nvidia-smi >"$OUT/machine.txt" 2>&1
  stage checks 300 "$here/gpu.test" -test.v -test.run .
  grep -c '^ *--- PASS' "$OUT/checks.txt"
}
bench() { stage bench 240 "$here/gpu.test" -test.run '^$' -test.bench . -test.benchtime 3s; }
peer() { stage peer 420 python3 "$here/peer.py"; }
profile() {
  # After the first step, which makes memory and kernels, 400 launches of the second and third.
  stage profile 240 ncu --clock-control none --section SpeedOfLight --section LaunchStats --launch-skip 1500 --launch-count 400 \
    "$here/gpu.test" -test.run '^$' -test.bench 'Train/bf16' -test.benchtime 1x
}
sanitize() {
  for tool in memcheck racecheck; do
    stage "$tool" 240 compute-sanitizer --tool "$tool" "$here/gpu.test" -test.run 'Conformance/bf16/(half|Gemm)'
  done
}
train() {
  export LD_LIBRARY_PATH=$here/lib
  local work program=$here/scalewm-cuda
  work=$(mktemp -d)
  stage collect 120 "$program" collect tworoom --out "$work/data.h5" --episodes 200 --seed 1
  for run in a b; do
    stage "train_$run" 240 "$program" train --task tworoom --method scale --data "$work/data.h5" --preset paper \
      --steps 100 --device cuda --seed 1 --out "$work/$run"
  done
  (cd "$work" && find a b -name '*.safetensors' -exec sha256sum {} +) >"$OUT/bits.txt"
  cat "$OUT/bits.txt"
  cp "$work/a/metrics.jsonl" "$OUT"
  rm -rf "$work"
}

if [ "${1:-}" = pack ]; then
  pack
  exit
fi
[ -n "${OUT:-}" ] || { echo "gpu-day: OUT is not set (hint: OUT=results $0)" >&2; exit 2; }
mkdir -p "$OUT"
for name in "${@:-checks bench peer profile sanitize train}"; do
  for one in $name; do
    case $one in checks | bench | peer | profile | sanitize | train) "$one" ;;
    *) echo "gpu-day: there is no stage \"$one\"" >&2 && exit 2 ;; esac
  done
done
