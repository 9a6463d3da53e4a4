#!/usr/bin/env bash
# Tests and benchmarks for a machine with a GPU that is available for a short time: three
# calls of ten minutes each. Every call starts on a bare machine (NVIDIA's driver, python3,
# PyTorch) and writes its results to $OUT.
#
#   make gpu-day                             on this machine, without a GPU: packs bin/gpu-day
#   OUT=dir bin/gpu-day/gpu-day.sh one       on the GPU machine: rates compared with PyTorch's, conformance,
#                                            frames by EGL
#   OUT=dir bin/gpu-day/gpu-day.sh two       Two-Room at its published size, trained and evaluated
#   OUT=dir bin/gpu-day/gpu-day.sh three     reproducibility to the bit, hardware counters, sanitizers, PyTorch
#                                            with max-autotune
#   OUT=dir bin/gpu-day/gpu-day.sh STAGE...  single stages, of those below
#
# Each stage has a time limit, and the next stage runs even if it fails. After each stage
# summary.txt and results.tar.gz in $OUT are up to date; at the end the summary is printed.
# LIMIT is the time limit of a call in seconds (570). REHEARSE=1 runs everything at toy sizes,
# for machines whose GPU is emulated (make gpu-day-rehearsal).
set -uo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# stable-worldmodel, and what its solvers and modules import beyond PyTorch and its
# dependencies.
wheels=(stable-worldmodel==0.1.1 gymnasium==1.4.0 farama-notifications==0.0.6 loguru==0.7.3)

# pack builds bin/gpu-day. make runs it with the environment variables that say where the
# headers and libraries are.
pack() {
  set -e
  cd "$here/../../../.."
  local to=bin/gpu-day all fetched=third_party/fetched
  all=$(mktemp -d)
  trap "rm -rf '$all'" EXIT
  mkdir -p "$all/lib" "$all/site" "$all/wheels"
  # With DT_RPATH ($ORIGIN/lib) instead of DT_RUNPATH, the loader searches the folder for
  # the libraries' own dependencies, too.
  local flags="-s -w -X main.revision=$(git describe --always --dirty 2>/dev/null || true) -extldflags '-Wl,-rpath,\$ORIGIN/lib -Wl,--disable-new-dtags'"
  go build -tags gpu -buildvcs=false -ldflags "$flags" -o "$all/scalewm-cuda" ./cmd/scalewm
  go test -c -tags gpu -ldflags "$flags" -o "$all/gpu.test" ./model/device/cuda/gpu
  for package in model/lewm model/train eval/plan; do # tests with reference cases in testdata
    go test -c -tags gpu -ldflags "$flags" -o "$all/${package##*/}.test" "./$package"
    mkdir -p "$all/${package##*/}/testdata"
    cp -r "$package/testdata/reference" "$all/${package##*/}/testdata"
  done
  cp cmd/scalewm/testdata/tiny.toml model/device/cuda/testdata/summary.py "$fetched/mujoco/libmujoco.so.3.11.0" "$all"
  cp -r "$fetched/ogbench/descriptions" "$all"
  libraries "$all/scalewm-cuda" "$all/libmujoco.so.3.11.0" $(ldconfig -p | awk '/lib(EGL|OpenGL|GL)\.so\.[01] / { print $NF }') |
    xargs -I{} cp -Lu {} "$all/lib"
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --dest "$all/wheels" "${wheels[@]}"
  for wheel in "$all"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$all/site"; done
  # The packages' __init__ import every environment and data set and their dependencies.
  # Empty ones allow importing single modules.
  for package in stable_worldmodel stable_worldmodel/wm; do : >"$all/site/$package/__init__.py"; done
  rm -r "$all/wheels"
  rm -rf "$to"
  mkdir -p "$to"
  tar -C "$all" -cJf "$to/day.tar.xz" .
  cp "${BASH_SOURCE[0]}" "$to"
  du -sh "$to"
}

# libraries FILE... prints the libraries that the files depend on, and those files that are
# libraries themselves. The C and C++ libraries and the driver come from the GPU machine.
libraries() {
  for file in "$@"; do
    case $file in /*.so.*[0-9]) [ "${file%/*}" = "$all" ] || echo "$file" ;; esac
    ldd "$file" | awk '/=> \// { print $3 }'
  done | sort -u | grep -vE '/(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda))\.so'
}

if [ "${1:-}" = pack ]; then
  pack
  exit
fi
[ -n "${OUT:-}" ] || { echo "gpu-day: OUT is not set (hint: OUT=results $0 one)" >&2; exit 2; }
[ $# -gt 0 ] || { echo "gpu-day: no part given (hint: one, two or three)" >&2; exit 2; }

limit=${LIMIT:-570}
work=$(mktemp -d)
results=$work/results
mkdir -p "$OUT" "$results"

# prepare unpacks the archive and finds the machine's own libraries.
prepare() {
  tar -C "$work" -xJf "$here/day.tar.xz" 2>/dev/null ||
    python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$here/day.tar.xz" "$work" || exit 1
  printf '#!/bin/sh\nPYTHONPATH=%s/site exec python3 "$@"\n' "$work" >"$work/python"
  chmod +x "$work/python"
  # PyTorch's wheels contain cublasLt. NVIDIA's driver may be in a separate folder.
  local lt
  lt=$(python3 -c 'import glob, os, sysconfig
print(*{os.path.dirname(f) for f in glob.glob(sysconfig.get_path("purelib") + "/nvidia/*/lib/libcublasLt.so.*")}, sep=":")' 2>/dev/null)
  export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$lt${lt:+:}/usr/local/nvidia/lib64"
  local vendor=/usr/local/nvidia/share/glvnd/egl_vendor.d/10_nvidia.json
  [ ! -e "$vendor" ] || export __EGL_VENDOR_LIBRARY_FILENAMES=$vendor
  # Cache compiled kernels between stages, even if the home folder is not writable.
  mkdir -p "$work/kernels"
  export CUDA_CACHE_PATH=${CUDA_CACHE_PATH:-$work/kernels} TORCHINDUCTOR_CACHE_DIR=$work/inductor PYTHONUNBUFFERED=1
}

# stage NAME SECONDS COMMAND... runs a command for at most SECONDS, or until the end of the
# call. Its standard output goes to NAME.txt and its messages to NAME.err.
stage() {
  local name=$1 seconds=$(($2 * patience)) begin=$SECONDS code left=$((limit - SECONDS))
  shift 2
  if [ "$left" -lt 10 ]; then
    echo "$name: no time left" | tee -a "$results/stages.txt"
    return 1
  fi
  timeout -s INT -k 10 "$((seconds < left ? seconds : left))" "$@" >"$results/$name.txt" 2>"$results/$name.err"
  code=$?
  printf '%s: exit %d, %d s\n' "$name" "$code" "$((SECONDS - begin))" | tee -a "$results/stages.txt"
  [ "$code" = 0 ] || tail -n 3 "$results/$name.err"
  keep
  return "$code"
}

# keep updates summary.txt and results.tar.gz in $OUT.
keep() {
  python3 "$work/summary.py" "$results" >"$OUT/summary.txt" 2>&1 || cat "$results/stages.txt" >"$OUT/summary.txt"
  tar -C "$work" -czf "$OUT/results.tar.gz.part" results && mv "$OUT/results.tar.gz.part" "$OUT/results.tar.gz"
}

scalewm=$work/scalewm-cuda
preset=paper parts=train,plan side=100 rounds=5 episodes=10000 trial=60 steps=100 few=200 sets=all each=100 tiers=T1,T3 patience=1
cases='Conformance/bf16/'
if [ -n "${REHEARSE:-}" ]; then
  preset=$work/tiny.toml parts=train side=0 rounds=1 episodes=16 trial=2 steps=2 few=16 sets=s101 each=2 tiers=T5 patience=6
  cases='Conformance/bf16/(MSE|SumSquares)$'
fi

machine() {
  { nvidia-smi; nproc; lscpu | grep 'Model name'; free -g; uname -r; python3 --version; command -v ncu compute-sanitizer nvcc; } >"$results/machine.txt" 2>&1
  stage doctor 30 "$scalewm" doctor
  # The driver compiles the kernels here, once. If Hopper's kernels hang or fail, the
  # remaining stages use Ampere's.
  if ! stage start 90 "$work/gpu.test" -test.v -test.run TestMeasure || grep -q -e '--- SKIP' "$results/start.txt"; then
    export SCALEWM_CUDA_TARGET=sm_80
    echo "the GPU does not start: using Ampere's kernels from here on" | tee -a "$results/stages.txt"
    stage start_ampere 60 "$work/gpu.test" -test.v -test.run TestMeasure
  fi
}
# Our own numbers come first, without PyTorch, in case a later stage fails.
bench() {
  stage bench 120 "$scalewm" bench --device cuda --preset "$preset" --what "$parts" --side "$side" --rounds "$rounds" --json
  kernels "$rounds"
}
kernels() { stage kernels 60 "$scalewm" bench --device cuda --preset "$preset" --what kernels --side "$side" --rounds "${1:-1}" --json; }
checks() { stage checks 120 "$work/gpu.test" -test.v -test.run "${REHEARSE:+$cases}"; }
# Cases computed by PyTorch and by stable-worldmodel's planners on small models.
references() {
  for name in lewm train plan; do
    stage "references_$name" 60 env -C "$work/$name" "$work/$name.test" -test.v -test.run '^TestGPU'
  done
}
# The same work without overlapping launches and with Ampere's kernels: measures what each
# gains, and shows whether one is at fault.
without() {
  local work_on=("$scalewm" bench --device cuda --preset "$preset" --what "$parts" --rounds "$rounds" --json)
  SCALEWM_CUDA_PLAIN=1 stage plain 50 "${work_on[@]}"
  SCALEWM_CUDA_TARGET=sm_80 stage ampere 60 "${work_on[@]}"
}
has_torch() { python3 -c 'import torch' 2>/dev/null || { echo "$1: no PyTorch here" | tee -a "$results/stages.txt"; return 1; }; }
peer_train() { has_torch peer_train && stage peer_train 170 "$scalewm" bench --device cuda --preset "$preset" --what train --rounds 10 --peer "$work/python" --json; }
# torch.compile takes most of its time.
peer_plan() {
  has_torch peer_plan && stage peer_plan 200 "$scalewm" bench --device cuda --preset "$preset" --what plan --side "$side" --rounds "$((rounds < 3 ? rounds : 3))" --peer "$work/python" --json
}
autotune() {
  has_torch autotune && PEER_AUTOTUNE=1 stage autotune 300 "$scalewm" bench --device cuda --preset "$preset" --what train --rounds "$rounds" --peer "$work/python" --json
}
frames() {
  export MUJOCO_GL=egl
  stage frames 60 "$scalewm" bench --device cpu --what env --rounds 3 --json
  stage frames_reacher 45 "$scalewm" collect reacher --episodes "${REHEARSE:-16}" --seed 1 --out "$work/reacher.h5" --json
  unset MUJOCO_GL
}

# collect_tworoom N collects a data set of N episodes.
collect_tworoom() { stage collect 150 "$scalewm" collect tworoom --episodes "$1" --seed 3072 --out "$work/tworoom.h5" --json; }
# train NAME METHOD STEPS SECONDS
train() {
  stage "$1" "$4" "$scalewm" train --task tworoom --method "$2" --data "$work/tworoom.h5" --preset "$preset" --steps "$3" --device cuda \
    --seed 3072 --out "$work/grid/train/tworoom-$1" --json
}
evaluate() {
  stage "eval_$1" 90 "$scalewm" eval --task tworoom "${@:2}" --data "$work/tworoom.h5" --solver cem --tier "$tiers" --sets "$sets" --episodes "$each" \
    --device cuda --precision bf16 --out "$work/grid" --json
}

# tworoom trains two methods, for as many steps as fit into the time that collecting and
# evaluating leave. A short probe measures the time of a step.
tworoom() {
  collect_tworoom "$episodes" || return
  train probe lewm "$trial" 60 || return
  local ms for_each n
  ms=$(sed -n 's/.*"ms_step":\([0-9.]*\).*/\1/p' "$results/probe.txt" | tail -n 1)
  rm -rf "$work/grid/train/tworoom-probe"
  for_each=$(((limit - SECONDS - 150) / 2))
  n=$(awk -v s="$for_each" -v ms="$ms" 'BEGIN { printf "%d", (0.85 * s - 10) * 1000 / ms }') # less the time to open the data, validate and save
  [ -z "${REHEARSE:-}" ] || n=4
  echo "tworoom: $n steps of $ms ms each" | tee -a "$results/stages.txt"
  for method in lewm scale; do
    train "$method" "$method" "$n" "$for_each" && evaluate "$method" --weights "$work/grid/train/tworoom-$method"
    cp "$work/grid/train/tworoom-$method/metrics.jsonl" "$results/metrics_$method.jsonl"
  done
  evaluate random --random
  stage report 30 "$scalewm" report "$work/grid" --out "$results/report" --format html,md,json
}

# bits runs the same training twice; the weights must be equal to the bit.
bits() {
  collect_tworoom "$few" || return
  for run in bits_a bits_b; do train "$run" scale "$steps" 60; done
  (cd "$work/grid/train" && sha256sum tworoom-bits_*/weights.safetensors) >"$results/bits.txt"
}

# counters records hardware counters of a training step and of part of a plan by Nsight
# Compute. It filters by the names of our kernels, which excludes those of cublasLt.
counters() {
  command -v ncu >/dev/null || { echo "counters: no ncu here" | tee -a "$results/stages.txt"; return; }
  kernels || return
  local names launches tensor
  names=$(grep -o '"kernel": *"[^"]*"' "$results/kernels.txt" | cut -d'"' -f4 | cut -d' ' -f1 | sort -u | paste -sd'|')
  launches=$(python3 -c 'import json, sys; print(sum(k["launches"] for k in json.load(open(sys.argv[1]))["kernels"]["train"]))' "$results/kernels.txt")
  tensor=$(ncu --query-metrics --chip gh100 2>/dev/null | awk '/^sm__inst_executed_pipe_tensor/ { printf ",%s.sum", $1 }')
  local with=(ncu --clock-control none --csv --page raw --print-units base --kernel-name "regex:^($names)\$" --metrics
    "gpu__time_duration.sum,dram__bytes_read.sum,dram__bytes_write.sum,sm__inst_executed.sum,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread$tensor")
  local work_on=("$scalewm" bench --device cuda --preset "$preset" --what kernels --rounds 1 --json)
  stage ncu_train 150 "${with[@]}" --log-file "$results/ncu_train.csv" --launch-count "$((launches * 5 / 4))" "${work_on[@]}"
  stage ncu_plan 90 "${with[@]}" --log-file "$results/ncu_plan.csv" --launch-skip "$((launches * 3))" --launch-count 600 "${work_on[@]}"
}
sanitize() {
  for tool in memcheck racecheck synccheck; do
    command -v compute-sanitizer >/dev/null || { echo "$tool: no compute-sanitizer here" | tee -a "$results/stages.txt"; continue; }
    stage "$tool" 70 compute-sanitizer --tool "$tool" "$work/gpu.test" -test.run "$cases" -test.skip Conformance/bf16/invariance
  done
}

prepare
nvidia-smi --query-gpu=clocks.sm,memory.used,power.draw,temperature.gpu,clocks_event_reasons.active --format=csv,noheader -l 1 >"$results/monitor.csv" 2>/dev/null &
monitor=$!
trap 'kill "$monitor" 2>/dev/null; rm -rf "$work"' EXIT
for name in "$@"; do
  case $name in
  one) machine; bench; checks; peer_train; peer_plan; frames; references; without ;;
  two) machine; tworoom ;;
  three) machine; bits; counters; sanitize; autotune ;;
  machine | bench | kernels | checks | references | without | peer_train | peer_plan | frames | tworoom | bits | counters | sanitize | autotune) "$name" ;;
  *) echo "gpu-day: there is no stage \"$name\"" >&2; exit 2 ;;
  esac
done
keep
cat "$OUT/summary.txt"
