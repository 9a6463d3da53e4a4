package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// wire is a proxy between the program and an S3 server. It can cut one chosen request: it
// forwards some of the bytes, reports that, and then stops.
type wire struct {
	mu           sync.Mutex
	method, name string
	reached      func()
}

// cut selects the request to cut, by its HTTP method and object name.
func (w *wire) cut(method, name string, reached func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.method, w.name, w.reached = method, name, reached
}

func (w *wire) wrap(r *http.Request, method string, body io.ReadCloser) io.ReadCloser {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reached == nil || r.Method != method || method != w.method || !strings.HasSuffix(r.URL.Path, w.name) {
		return body
	}
	reached := w.reached
	w.reached = nil
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, 500), readerFunc(func([]byte) (int, error) { reached(); return 0, errors.New("cut") })), body}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// startS3 starts versitygw on a folder with the bucket "runs", and a wire to it, which the environment names.
func startS3(t *testing.T) (*wire, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "runs"), 0o777); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	server := exec.Command(os.Getenv("SCALEWM_S3"), "--port", l.Addr().String(), "posix", dir)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testtest")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	w := &wire{}
	behind := &url.URL{Scheme: "http", Host: l.Addr().String()}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(behind)
			r.Out.Host = r.In.Host // which is signed
			r.Out.Body = w.wrap(r.In, http.MethodPut, r.Out.Body)
		},
		ModifyResponse: func(r *http.Response) error {
			r.Body = w.wrap(r.Request, http.MethodGet, r.Body)
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	front := httptest.NewServer(proxy)
	t.Cleanup(front.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": front.URL, "AWS_ENDPOINT_URL_S3": "", "AWS_ACCESS_KEY_ID": "test",
		"AWS_SECRET_ACCESS_KEY": "testtest", "AWS_SESSION_TOKEN": "", "AWS_REGION": "us-east-1"} {
		t.Setenv(name, value)
	}
	return w, filepath.Join(dir, "runs")
}

// TestS3 lets processes with separate folders share a grid through a real S3 server, and
// kills one in the middle of a push and of a pull. All objects are complete, and all files
// are those of a single process.
func TestS3(t *testing.T) {
	if os.Getenv("SCALEWM_S3") == "" {
		t.Skip("make test-s3 runs it")
	}
	wire, bucket := startS3(t)
	slow := slowPreset(t, 1200)
	command := func(dir string, more ...string) *exec.Cmd {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
		t.Cleanup(stop)
		return exec.CommandContext(ctx, "scalewm", slices.Concat([]string{"reproduce", "--preset", slow, "--tasks", "tworoom", "--methods", "scale,random",
			"--tiers", "T5", "--sets", "s101,s102", "--episodes", "2", "--out", dir}, more)...)
	}
	end := func(cmd *exec.Cmd, out []byte, want int, says string) {
		t.Helper()
		if code := cmd.ProcessState.ExitCode(); code != want || !strings.Contains(string(out), says) {
			t.Fatalf("%v: exit %d, want %d and %q\n%s", cmd.Args, code, want, says, out)
		}
	}
	do := func(dir string, want int, says string, more ...string) {
		t.Helper()
		cmd := command(dir, more...)
		out, _ := cmd.CombinedOutput() // its exit code tells
		end(cmd, out, want, says)
	}
	there := func(parts ...string) bool {
		_, err := os.Stat(filepath.Join(parts...))
		return err == nil
	}
	// killedAt runs the program and kills it during the transfer of a file.
	killedAt := func(method, name, dir string, more ...string) {
		t.Helper()
		cmd := command(dir, more...)
		wire.cut(method, name, func() { cmd.Process.Kill() })
		out, _ := cmd.CombinedOutput()
		end(cmd, out, -1, "")
	}
	whole, a, b, c := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	do(whole, exitDone, "")
	store := []string{"--remote", "s3://runs/a/run"}
	on := func(more ...string) []string { return append(more, store...) }
	train := "train/tworoom-scale-s3072"

	killedAt(http.MethodPut, "data/tworoom.h5", a, on("--stage", "collect")...)
	if there(bucket, "a/run/data/tworoom.h5") {
		t.Error("half a data set is in the store")
	}
	do(b, exitIncomplete, "run --stage collect first", on("--stage", "train")...)
	do(a, exitDone, "done", on("--stage", "collect")...)
	killedAt(http.MethodGet, "data/tworoom.h5", b, on("--stage", "train")...)
	if there(b, "data/tworoom.h5") {
		t.Error("half a data set is in the folder")
	}

	// A training on a stops after a warning and resumes on b, which is killed while it pushes
	// the weights; then a completes it.
	cmd := command(a, on("--stage", "train")...)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for !there(a, train, "step-000050.json") {
		time.Sleep(20 * time.Millisecond)
	}
	cmd.Process.Signal(syscall.SIGUSR1)
	cmd.Wait()
	end(cmd, said.Bytes(), exitTimeUp, "time is nearly up")
	if !there(bucket, "a/run", train, "resume.safetensors") || there(bucket, "a/run", train, "weights.json") {
		t.Error("the store has no resume point of the training, or a finished one")
	}
	killedAt(http.MethodPut, train+"/weights.safetensors", b, on("--stage", "train")...)
	if there(bucket, "a/run", train, "weights.safetensors") || there(bucket, "a/run", train, "weights.json") {
		t.Error("a torn training is in the store")
	}
	var clock struct {
		From int `json:"from_step"`
	}
	if text, err := os.ReadFile(filepath.Join(b, train, "run.json")); err != nil || json.Unmarshal(text, &clock) != nil || clock.From < 50 {
		t.Errorf("b began at step %d (%v): it did not go on from a's resume point", clock.From, err)
	}
	do(a, exitDone, "1200 steps", on("--stage", "train", "--break-lock")...)

	var both sync.WaitGroup
	for i, dir := range []string{a, b} {
		both.Go(func() { do(dir, exitDone, "", on("--stage", "eval", "--shard", []string{"0/2", "1/2"}[i])...) })
	}
	both.Wait()
	do(c, exitDone, "report.html", on("--stage", "report")...)
	sameResults(t, "through S3", gridFiles(t, c), gridFiles(t, whole))
	if there(bucket, "a/run", train, "resume.safetensors") {
		t.Error("a resume point of the finished training is left over in the store")
	}
}
