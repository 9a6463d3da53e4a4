#!/bin/sh
# run.sh: see README.md.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
engine=$here/../..
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
flags="-std=gnu11 -O3 -ffreestanding -fno-pic -no-pie -mno-red-zone -fno-stack-protector -fno-asynchronous-unwind-tables -I$engine"
cd "$out"
gcc $flags -c "$here/boot.S" -o boot.o
gcc $flags -c "$here/main.c" -o main.o
gcc $flags -Wno-unused-function -c "$engine/isa_amx.c" -o amx.o
# Thread-local tiles would want an operating system; there is one thread.
gcc $flags -Wno-unused-function -D_Thread_local= -c "$engine/isa_amx_emulated.c" -o emulated.o
ld -n -T "$here/link.ld" -o test64.elf boot.o main.o amx.o emulated.o 2>ld.log || { cat ld.log; exit 1; }
mkdir -p iso/isolinux
objcopy -O elf32-i386 test64.elf iso/test.elf
for f in isolinux.bin mboot.c32 libcom32.c32 ldlinux.c32; do cp "$SYSLINUX/$f" iso/isolinux/; done
printf 'SERIAL 0 115200\nDEFAULT t\nPROMPT 0\nLABEL t\n KERNEL mboot.c32\n APPEND /test.elf\n' > iso/isolinux/isolinux.cfg
genisoimage -quiet -o boot.iso -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table iso
cat > bochsrc <<END
display_library: nogui
megs: 512
romimage: file=$BOCHS/bios/BIOS-bochs-latest
vgaromimage: file=$BOCHS/bios/VGABIOS-lgpl/VGABIOS-lgpl-latest.bin
cpu: model=sapphire_rapids, count=1, ips=100000000
ata0-master: type=cdrom, path=$out/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$out/serial
log: $out/log
panic: action=fatal
clock: sync=none
END
# The machine does not switch itself off: it is stopped when it has said what it had to say.
timeout "${LIMIT:-900}" "$BOCHS/bochs" -q -f bochsrc > console 2>&1 &
pid=$!
n=0
until grep -aq '^DONE' serial 2>/dev/null || [ $n -ge "${LIMIT:-900}" ]; do
	sleep 1
	n=$((n + 1))
done
kill $pid 2>/dev/null || true
grep -aE 'differ|DONE' serial || tail -n 5 console log
grep -aq '^DONE.* 0 different, 0 wrong' serial
