package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/fieldpath"
)

// atOnce is the number of pods that run at the same time. Others are pending.
const atOnce = 4

// node replaces the scheduler, the kubelets and their containers. It runs the command
// of a pod's only container as the first process of separate namespaces, under the
// pod's host name. Images, volumes and limits are ignored: pods see the files of this
// machine.
type node struct {
	client  kubernetes.Interface
	dir     string // what pods print goes to DIR/POD.log
	places  chan struct{}
	running sync.WaitGroup

	mu   sync.Mutex
	stop map[types.UID]context.CancelFunc // of every pod that was seen
}

func newNode(client kubernetes.Interface, dir string) *node {
	return &node{client: client, dir: dir, places: make(chan struct{}, atOnce), stop: map[types.UID]context.CancelFunc{}}
}

func (n *node) watch(ctx context.Context, pods cache.SharedIndexInformer) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { n.see(ctx, o.(*core.Pod)) },
		UpdateFunc: func(_, o any) { n.see(ctx, o.(*core.Pod)) },
		DeleteFunc: func(o any) {
			if pod, ok := o.(*core.Pod); ok {
				n.end(pod)
			}
		},
	})
	return err
}

// see starts a new pod, and ends one that is being deleted.
func (n *node) see(ctx context.Context, pod *core.Pod) {
	if pod.DeletionTimestamp != nil {
		n.end(pod)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, seen := n.stop[pod.UID]; !seen {
		ctx, stop := context.WithCancel(ctx)
		n.stop[pod.UID] = stop
		n.running.Go(func() { n.run(ctx, pod.DeepCopy()) })
	}
}

func (n *node) end(pod *core.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stop := n.stop[pod.UID]; stop != nil {
		stop()
	}
}

// run runs a pod until its end. A pod that is deleted gets TERM and, after its grace
// period, KILL.
func (n *node) run(ctx context.Context, pod *core.Pod) {
	select {
	case n.places <- struct{}{}:
		defer func() { <-n.places }()
	case <-ctx.Done():
		return
	}
	pods := n.client.CoreV1().Pods(pod.Namespace)
	to := &core.Binding{ObjectMeta: meta.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: core.ObjectReference{Kind: "Node", Name: "node"}}
	if err := pods.Bind(ctx, to, meta.CreateOptions{}); err != nil {
		return // it is deleted already
	}
	began := meta.Now()
	n.report(pod, core.PodRunning, core.ContainerState{Running: &core.ContainerStateRunning{StartedAt: began}})
	phase, code := core.PodSucceeded, n.execute(ctx, pod)
	if code != 0 {
		phase = core.PodFailed
	}
	n.report(pod, phase, core.ContainerState{Terminated: &core.ContainerStateTerminated{ExitCode: int32(code), StartedAt: began, FinishedAt: meta.Now()}})
	if ctx.Err() != nil {
		now := int64(0)
		pods.Delete(context.Background(), pod.Name, meta.DeleteOptions{GracePeriodSeconds: &now, Preconditions: &meta.Preconditions{UID: &pod.UID}})
	}
}

// inside is what the first process of a pod does before it becomes the container's
// command.
const inside = `mount -t proc proc /proc && hostname "$0" && exec "$@"`

// execute runs the command of the pod's container and returns its exit code. As for
// containers, it is 128 plus the number of the signal if a signal ended it.
func (n *node) execute(ctx context.Context, pod *core.Pod) int {
	c := pod.Spec.Containers[0]
	log, err := os.Create(filepath.Join(n.dir, pod.Name+".log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
		return 128
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "bash", slices.Concat([]string{"-c", inside, pod.Spec.Hostname}, c.Command, c.Args)...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = c.WorkingDir, os.Environ(), log, log
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil {
			value, _ = fieldpath.ExtractFieldPathAsString(pod, e.ValueFrom.FieldRef.FieldPath) // the API server has checked it
		}
		cmd.Env = append(cmd.Env, e.Name+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS, Unshareflags: syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && cmd.ProcessState == nil {
		fmt.Fprintln(log, "node:", err)
		return 128
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() {
		return 128 + int(status.Signal())
	}
	return cmd.ProcessState.ExitCode()
}

// report writes the state of a pod to the API server. Parts of the status that others
// wrote remain.
func (n *node) report(pod *core.Pod, phase core.PodPhase, state core.ContainerState) {
	ready := core.ConditionFalse
	if phase == core.PodRunning {
		ready = core.ConditionTrue
	}
	c := pod.Spec.Containers[0]
	text, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase":             phase,
		"conditions":        []core.PodCondition{{Type: core.PodReady, Status: ready, LastTransitionTime: meta.Now()}},
		"containerStatuses": []core.ContainerStatus{{Name: c.Name, Image: c.Image, ImageID: c.Image, State: state}},
	}})
	if err == nil {
		_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(context.Background(), pod.Name, types.StrategicMergePatchType, text, meta.PatchOptions{}, "status")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "node:", err)
	}
}
