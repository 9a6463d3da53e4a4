package main

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// On a full disk no partial script is written, and the error names the reason. The disk is
// one of 4 kB in memory, which only this process sees.
func TestSubmitToAFullDisk(t *testing.T) {
	disk := t.TempDir()
	cmd := exec.Command("sh", "-c", `mount -t tmpfs -o size=4k none "$1" || exit 99
		scalewm reproduce --preset testdata/tiny.toml --tasks tworoom --methods random --device cpu --precision fp32 --out "$1" --submit slurm --print
		code=$?
		cat "$1"/jobs/*.sh
		exit $code`, "-", disk)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	code := cmd.ProcessState.ExitCode()
	if cmd.ProcessState == nil || code == 99 {
		t.Skipf("no disk can be made here: %v %s", err, out)
	}
	if code != exitFailed || !strings.Contains(string(out), "jobs/collect.sh: ") || !strings.Contains(string(out), "no space left on device (hint: free space") || strings.Contains(string(out), "#!/bin/bash") {
		t.Errorf("exit %d\n%s", code, out)
	}
}
