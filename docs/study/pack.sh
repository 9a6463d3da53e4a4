#!/bin/sh
# Packs the cells of one shard: pack.sh RESULTS TASK SEED [FOLDER] writes TASK-SEED.tar.zst next to this script,
# or in a folder there; SEED is 0 for random actions. Clocks and machines (*.run.json) stay behind.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
grep -lE "\"task\":\"$2\".*\"train_seed\":$3[,}]" cells/*.json | grep -v '\.run\.json$' | sort |
  tar -c --mtime=@0 --owner=0 --group=0 --numeric-owner -T - | zstd -q --ultra -22 > "$here/${4:-.}/$2-$3.tar.zst"
