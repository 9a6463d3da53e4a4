#!/bin/sh
# Packs the cells of one shard: pack.sh RESULTS TASK SEED leaves TASK-SEED.tar.xz beside this script;
# SEED may be "none", for random actions. Clocks and machines (*.run.json) stay behind.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
cd "$1"
case $3 in
none) cells=$(grep -L '"train_seed":' $(grep -lE "\"task\":\"$2\"" cells/*.json)) ;;
*) cells=$(grep -lE "\"task\":\"$2\".*\"train_seed\":$3[,}]" cells/*.json) ;;
esac
printf '%s\n' "$cells" | grep -v '\.run\.json$' | sort |
  tar -c --mtime=@0 --owner=0 --group=0 --numeric-owner -T - | xz -9e > "$here/$2-$3.tar.xz"
