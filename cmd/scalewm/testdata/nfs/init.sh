#!/bin/bash
# The first process of a user-mode Linux: an NFS 4.2 server and two mounts of it that
# share no cache, as two machines have them. The root file system is that of the host;
# what is tested lies in memory. SCALEWM_NFS, on the kernel's command line, is the folder with
# the programs and the modules.
export dir=$SCALEWM_NFS
export PATH=$dir:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp
mount -t proc proc /proc
mount -t sysfs sys /sys
for d in /run /var/lib/nfs /mnt; do mount -t tmpfs t $d; done
mkdir -p /run/rpc_pipefs /var/lib/nfs/{sm,sm.bak,v4recovery,rpc_pipefs,nfsdcld} /mnt/{export,a,b}
: >/var/lib/nfs/etab
: >/var/lib/nfs/rmtab
: >/var/lib/nfs/state
ip link set lo up
mount -t tmpfs t /mnt/export
for m in nfsd nfs nfsv4; do modprobe -d "$dir/root" $m || echo "no module $m"; done
mount -t nfsd nfsd /proc/fs/nfsd
mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
echo 10 >/proc/fs/nfsd/nfsv4leasetime
echo 10 >/proc/fs/nfsd/nfsv4gracetime
exportfs -i -o rw,fsid=0,no_root_squash,insecure,no_subtree_check '*:/mnt/export'
rpc.mountd -N 3
rpc.nfsd -N 3 -V 4 4
echo Y >/proc/fs/nfsd/v4_end_grace
for x in a b; do
  timeout 20 mount -t nfs4 -o vers=4.2,nosharecache,hard,proto=tcp 127.0.0.1:/ /mnt/$x || echo "no mount $x"
done
bash "$dir/body.sh" >"$dir/out" 2>&1
echo "rc $?" >>"$dir/out"
sync
echo o >/proc/sysrq-trigger
sleep 5
