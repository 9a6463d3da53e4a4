# Two machines, a and b, with one folder on NFS.
cd /
on() { # MACHINE COMMAND: with the machine's name and its mount in $m
  local host=$1
  shift
  unshare --uts bash -c "hostname $host; m=/mnt/$host; $*"
}
args="--preset $dir/slow.toml --tasks tworoom --methods lewm --tiers T5 --sets s101 --episodes 2 --device cpu --precision fp32"

echo "== a training that both are asked for"
on a "scalewm reproduce $args --stage collect --out \$m/run" || exit 1
on a "scalewm reproduce $args --stage train --out \$m/run > $dir/a.log 2>&1" & a=$!
on b "scalewm reproduce $args --stage train --out \$m/run > $dir/b.log 2>&1" & b=$!
wait $a || exit 1
wait $b || exit 1
cat "$dir/a.log" "$dir/b.log" | grep -c ' steps, loss ' # one of them trained
cat "$dir/a.log" "$dir/b.log" | grep -c 'is locked by process .* on [ab]'
ls -A /mnt/export/run/train/tworoom-lewm-s3072 | grep -c '^\.lock'

echo "== a machine is lost"
rm -rf /mnt/export/run/train
on a "exec scalewm reproduce $args --stage train --out \$m/run > $dir/a.log 2>&1" & a=$!
until [ -s /mnt/export/run/train/tworoom-lewm-s3072/metrics.jsonl ]; do sleep 0.1; done
pkill -KILL -P $a scalewm || kill -KILL $a
wait $a 2>/dev/null
on b "timeout 15 scalewm reproduce $args --stage train --out \$m/run > $dir/b.log 2>&1"
echo "waits: $?" # for a machine that may be alive
on b "scalewm reproduce $args --stage train --out \$m/run --break-lock > $dir/b.log 2>&1"
echo "breaks: $?"
grep -c ' steps, loss ' "$dir/b.log"

echo "== 10,000 cells that both make"
on a "SCALEWM_RACE=\$m/cells cell.test -test.run '^TestRace$' -test.v" >"$dir/a.log" & a=$!
on b "SCALEWM_RACE=\$m/cells cell.test -test.run '^TestRace$' -test.v" >"$dir/b.log" & b=$!
wait $a || { cat "$dir/a.log"; exit 1; }
wait $b || { cat "$dir/b.log"; exit 1; }
ls -A /mnt/export/cells | wc -l
ls -A /mnt/export/cells | grep -c aside
grep -h 'cells made' "$dir/a.log" "$dir/b.log"
