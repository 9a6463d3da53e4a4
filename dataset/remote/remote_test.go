package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"scalewm/dataset/remote/s3test"
	"scalewm/dataset/safefile"
)

// testPace makes waiting short: the first retry comes after a tenth of a millisecond.
// Tests of locks use lockPace, because an owner must have time to renew its lock.
const (
	testPace = 6 * time.Millisecond
	lockPace = 60 * time.Millisecond
)

// testPart is small, so that files of several parts are small too.
const testPart = 64 << 10

const address = "s3://" + s3test.Bucket + "/a/run"

func start(t *testing.T) (*s3test.Server, *Store) {
	t.Helper()
	server := s3test.Start(t)
	s, err := open(t.Context(), address, testPace)
	if err != nil {
		t.Fatal(err)
	}
	s.part = testPart
	return server, s
}

// file writes a file and opens a snapshot of it.
func file(t *testing.T, s *Store, name string, text []byte) *Snapshot {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := s.Snapshot(name, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// pull downloads a file and returns its content.
func pull(t *testing.T, s *Store, name string) ([]byte, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "folder", "file")
	if err := s.Get(t.Context(), name, path, nil); err != nil {
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) > 0 {
			t.Errorf("a failed pull of %s left %v", name, left)
		}
		return nil, err
	}
	return os.ReadFile(path)
}

// large returns the content of a file of three parts.
func large() []byte {
	b := make([]byte, 2*testPart+1000)
	for i := range b {
		b[i] = byte(i * i >> 8)
	}
	return b
}

func TestPutAndGet(t *testing.T) {
	server, s := start(t)
	for name, text := range map[string][]byte{"cells/a.json": []byte("a cell"), "empty": {}, "data/t.h5": large()} {
		var moved atomic.Int64
		if err := s.PutOnce(t.Context(), file(t, s, name, text), func(n int) { moved.Add(int64(n)) }); err != nil {
			t.Fatal(err)
		}
		if moved.Load() != int64(len(text)) {
			t.Errorf("%s: %d bytes were reported, want %d", name, moved.Load(), len(text))
		}
		if there := server.Objects()["a/run/"+name]; !bytes.Equal(there, text) {
			t.Errorf("%s: the store has %d bytes, want the %d of the file", name, len(there), len(text))
		}
		if back, err := pull(t, s, name); err != nil || !bytes.Equal(back, text) {
			t.Errorf("%s came back as %d bytes, %v", name, len(back), err)
		}
		puts := server.Requests(http.MethodPut)
		if err := s.PutOnce(t.Context(), file(t, s, name, text), nil); err != nil || server.Requests(http.MethodPut) != puts {
			t.Errorf("%s again: %v, and %d puts where none was needed", name, err, server.Requests(http.MethodPut)-puts)
		}
	}
	if n := server.Uploads(); n != 0 {
		t.Errorf("%d uploads are left over", n)
	}
}

// Two machines upload one file: equal bytes are fine, and for different ones the
// error names both files.
func TestOtherBytes(t *testing.T) {
	_, s := start(t)
	mine := file(t, s, "cells/a.json", []byte("mine"))
	if err := s.PutOnce(t.Context(), mine, nil); err != nil {
		t.Fatal(err)
	}
	other := file(t, s, "cells/a.json", []byte("other"))
	err := s.PutOnce(t.Context(), other, nil)
	if !errors.Is(err, ErrOther) || !strings.Contains(err.Error(), other.path) || !strings.Contains(err.Error(), address+"/cells/a.json") {
		t.Errorf("other bytes: %v", err)
	}
	if err := s.Put(t.Context(), other, nil); err != nil {
		t.Errorf("in place of what is there: %v", err)
	}
	if back, err := pull(t, s, "cells/a.json"); string(back) != "other" {
		t.Errorf("then it is %q, %v", back, err)
	}
}

// Of 64 processes that upload one name, one succeeds, and all others get an error that
// the store has another file.
func TestRace(t *testing.T) {
	_, s := start(t)
	race(t, s, "small", 100, 64)
	race(t, s, "large", testPart+1, 64)
}

func race(t *testing.T, s *Store, name string, size, writers int) {
	t.Helper()
	var won, lost atomic.Int64
	var all sync.WaitGroup
	for i := range writers {
		p := file(t, s, name, bytes.Repeat([]byte{byte(i)}, size))
		all.Go(func() {
			switch err := s.PutOnce(t.Context(), p, nil); {
			case err == nil:
				won.Add(1)
			case errors.Is(err, ErrOther):
				lost.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != int64(writers-1) {
		t.Errorf("%s, %d bytes: %d won and %d lost, want 1 and %d", name, size, won.Load(), lost.Load(), writers-1)
	}
}

// Requests that fail temporarily are repeated, and transfers that break off resume.
func TestTrouble(t *testing.T) {
	if testing.Short() {
		t.Skip("slow")
	}
	server, s := start(t)
	text := large()
	var n atomic.Int64
	troubles := []struct {
		status int
		code   string
	}{{500, "InternalError"}, {409, "ConditionalRequestConflict"}, {503, "SlowDown"}}
	server.Fail = func(*http.Request) (int, string) {
		if i := int(n.Add(1)); i%2 == 0 {
			return troubles[i/2%len(troubles)].status, troubles[i/2%len(troubles)].code
		}
		return 0, ""
	}
	if err := s.PutOnce(t.Context(), file(t, s, "data/t.h5", text), nil); err != nil {
		t.Fatal(err)
	}
	// Each answer breaks off after 10 KiB at most.
	server.Cut = func(*http.Request) int { return 10 << 10 }
	if back, err := pull(t, s, "data/t.h5"); err != nil || !bytes.Equal(back, text) {
		t.Errorf("it came back as %d bytes, %v", len(back), err)
	}
	if all, err := s.List(t.Context(), ""); err != nil || len(all) != 1 {
		t.Errorf("listed as %v, %v", all, err)
	}
	server.Fail = func(*http.Request) (int, string) { return 500, "InternalError" }
	if _, err := pull(t, s, "data/t.h5"); err == nil || !strings.Contains(err.Error(), "hint: the server has trouble") {
		t.Errorf("a server that stays in trouble: %v", err)
	}
}

// An object without a checksum, or with the wrong bytes for it, is not a file.
func TestDamaged(t *testing.T) {
	server, s := start(t)
	if err := s.PutOnce(t.Context(), file(t, s, "cells/a.json", []byte("a cell")), nil); err != nil {
		t.Fatal(err)
	}
	server.Change("a/run/cells/a.json", []byte("a cel!"))
	if _, err := pull(t, s, "cells/a.json"); !errors.Is(err, errTorn) {
		t.Errorf("pulled: %v", err)
	}
	server.Change("a/run/cells/b.json", []byte("by another program"))
	if _, err := pull(t, s, "cells/b.json"); err == nil || !strings.Contains(err.Error(), "no checksum") {
		t.Errorf("without a sum: %v", err)
	}
}

func TestList(t *testing.T) {
	server, s := start(t)
	// More than three pages of the listing.
	for i := range 10 {
		server.Change(fmt.Sprintf("a/run/cells/%02d.json", i), []byte("cell"))
	}
	for _, name := range []string{"a/run/cells/../../x", "a/run/.locks/x.1", "a/run/train/.hidden", "a/run/cells/", "a/other", "b"} {
		server.Change(name, nil)
	}
	all, err := s.List(t.Context(), "cells/")
	if err != nil || len(all) != 10 || all[3].Name != "cells/03.json" || all[3].Size != 4 {
		t.Errorf("%d are listed, %v: %v", len(all), err, all)
	}
	if all, err = s.List(t.Context(), ""); err != nil || len(all) != 10 {
		t.Errorf("%d names of files, %v: %v", len(all), err, all)
	}
}

func TestRemove(t *testing.T) {
	server, s := start(t)
	server.Change("a/run/x", nil)
	for range 2 {
		if err := s.Remove(t.Context(), "x"); err != nil {
			t.Error(err)
		}
	}
	if _, there := server.Objects()["a/run/x"]; there {
		t.Error("it is still there")
	}
}

// Each way in which an address can be wrong gives an error of one line with a hint,
// without the secret.
func TestRefused(t *testing.T) {
	server := s3test.Start(t)
	fails := func(status int, code string) func() {
		return func() { server.Fail = func(*http.Request) (int, string) { return status, code } }
	}
	elsewhere := httpServer(t, "<html>hello</html>")
	for name, c := range map[string]struct {
		address string
		prepare func()
		want    string
	}{
		"bucket":      {"s3://none/a", func() {}, "there is no bucket none (hint: make it first"},
		"credentials": {address, func() { t.Setenv("AWS_ACCESS_KEY_ID", "") }, "there are no credentials (hint: set AWS_ACCESS_KEY_ID"},
		"unknown":     {address, func() { t.Setenv("AWS_ACCESS_KEY_ID", "nobody") }, "hint: the server does not know these credentials"},
		"expired":     {address, fails(400, "ExpiredToken"), "hint: the credentials have expired"},
		"forbidden":   {address, fails(403, "AccessDenied"), "hint: these credentials must be allowed to"},
		"quota":       {address, fails(403, "QuotaExceeded"), "hint: the store is full"},
		"full":        {address, fails(507, "XMinioStorageFull"), "hint: the store is full"},
		"careless":    {address, func() { server.Careless = true }, `ignores the condition "If-None-Match: *"`},
		"unable":      {address, fails(501, "NotImplemented"), `ignores the condition "If-None-Match: *"`},
		"nobody":      {address, func() { t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1") }, "hint: is AWS_ENDPOINT_URL the address"},
		"web":         {address, func() { t.Setenv("AWS_ENDPOINT_URL", elsewhere) }, "not the answer of an S3 server: 405 Method Not Allowed (hint: "},
		"no server":   {address, func() { t.Setenv("AWS_ENDPOINT_URL", "minio") }, "AWS_ENDPOINT_URL is not the address of a server"},
		"address":     {"https://x/y", func() {}, "is not the address of a store"},
		"no bucket":   {"s3:///y", func() {}, "is not the address of a store"},
		"short":       {"s3://ab/y", func() {}, "no store accepts the bucket \"ab\" (hint: "},
		"characters":  {"s3://runs;x/y", func() {}, "no store accepts the bucket"},
		"number":      {"s3://10.0.0.1/y", func() {}, "no store accepts the bucket"},
		"up":          {"s3://runs/../y", func() {}, "is not the address of a store"},
	} {
		t.Setenv("AWS_ENDPOINT_URL", server.URL)
		t.Setenv("AWS_ACCESS_KEY_ID", s3test.Key)
		server.Fail, server.Careless = nil, false
		c.prepare()
		_, err := open(t.Context(), c.address, testPace)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") || strings.Contains(err.Error(), "a secret") {
			t.Errorf("%s: %v, want words with %q", name, err, c.want)
		}
	}
}

// A helper that renews credentials rewrites their file while the program runs.
func TestRenewedCredentials(t *testing.T) {
	server := s3test.Start(t)
	path := filepath.Join(t.TempDir(), "credentials")
	write := func(key string) {
		if err := os.WriteFile(path, []byte("[default]\naws_access_key_id = "+key+"\naws_secret_access_key = x\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", path)
	write(s3test.Key)
	s, err := open(t.Context(), address, testPace)
	if err != nil {
		t.Fatal(err)
	}
	write("renewed")
	server.Fail = func(r *http.Request) (int, string) {
		if strings.Contains(r.Header.Get("Authorization"), "renewed") {
			// This status shows that the new credentials were read.
			return 403, "AccessDenied"
		}
		return 400, "ExpiredToken"
	}
	if _, err := s.List(t.Context(), ""); status(err) != 403 {
		t.Errorf("after they expired: %v", err)
	}
}

// An interrupt ends every operation at once.
func TestInterrupted(t *testing.T) {
	server, s := start(t)
	s.pace = time.Hour
	server.Fail = func(*http.Request) (int, string) { return 500, "InternalError" }
	ctx, stop := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, stop)
	for name, do := range map[string]func() error{
		"list": func() error { _, err := s.List(ctx, ""); return err },
		"get":  func() error { return s.Get(ctx, "x", filepath.Join(t.TempDir(), "x"), nil) },
		"put":  func() error { return s.Put(ctx, file(t, s, "x", nil), nil) },
		"lock": func() error { _, err := s.Lock(ctx, "x", safefile.LockOptions{}); return err },
	} {
		if err := do(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A transfer that receives no bytes is started again.
func TestStalled(t *testing.T) {
	server, s := start(t)
	if err := s.PutOnce(t.Context(), file(t, s, "x", []byte("text")), nil); err != nil {
		t.Fatal(err)
	}
	s.stall = 100 * time.Millisecond
	var n atomic.Int64
	server.Fail = func(r *http.Request) (int, string) {
		if n.Add(1) == 1 {
			<-r.Context().Done()
		}
		return 0, ""
	}
	if back, err := pull(t, s, "x"); string(back) != "text" {
		t.Errorf("%q, %v", back, err)
	}
}

// Of many processes that lock a name, one has it at a time, and all get it in the
// end.
func TestLock(t *testing.T) {
	server, s := start(t)
	s.pace = lockPace
	var inside, turns atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			release, err := s.Lock(t.Context(), "train/x", safefile.LockOptions{})
			if err != nil {
				t.Error(err)
				return
			}
			if inside.Add(1) != 1 {
				t.Error("two have it")
			}
			// Longer than the interval of renewal.
			time.Sleep(2 * lockPace)
			inside.Add(-1)
			turns.Add(1)
			release()
		})
	}
	all.Wait()
	if turns.Load() != 8 {
		t.Errorf("%d had it, want 8", turns.Load())
	}
	for key := range server.Objects() {
		if strings.Contains(key, ".locks") {
			t.Errorf("%s is left over", key)
		}
	}
}

// The lock of a lost machine is taken over when it was not renewed for long, and at
// once with Break.
func TestLockOfLostMachine(t *testing.T) {
	server, s := start(t)
	s.pace = lockPace
	server.Change("a/run/.locks/x.4", []byte(`{"host":"elsewhere","pid":7}`))
	var note string
	release, err := s.Lock(t.Context(), "x", safefile.LockOptions{Note: func(text string) { note += text }})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(note, "is locked by process 7 on elsewhere") {
		t.Errorf("note: %q", note)
	}
	if _, there := server.Objects()["a/run/.locks/x.5"]; !there {
		t.Errorf("the store has %v", server.Objects())
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*lockExpiry*lockPace) // ours is renewed
	defer stop()
	if _, err := s.Lock(ctx, "x", safefile.LockOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it was taken from one that is alive: %v", err)
	}
	second, err := s.Lock(t.Context(), "x", safefile.LockOptions{Break: true})
	if err != nil {
		t.Fatal(err)
	}
	release()
	second()
}

// An owner whose lock was broken neither renews nor removes the lock of a third
// process, which has the same name once the second has released.
func TestReleaseOfABrokenLock(t *testing.T) {
	server, s := start(t)
	s.pace = lockPace
	lock := func() (release func()) {
		release, err := s.Lock(t.Context(), "x", safefile.LockOptions{Break: true})
		if err != nil {
			t.Fatal(err)
		}
		return release
	}
	first, second := lock(), lock()
	second()
	third := lock()
	token := func() string {
		var l lease
		json.Unmarshal(server.Objects()["a/run/.locks/x.1"], &l) // none has no token
		return l.Token
	}
	want := token()
	// The first owner would renew its lock in this time.
	time.Sleep(3 * lockPace)
	if first(); want == "" || token() != want {
		t.Errorf("the third's lock is %q, want %q", token(), want)
	}
	third()
	if left := server.Objects()["a/run/.locks/x.1"]; left != nil {
		t.Errorf("left over: %s", left)
	}
}

// httpServer returns the address of a server that answers every request with a page.
func httpServer(t *testing.T, page string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusMethodNotAllowed)
		fmt.Fprint(w, page)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// TestS3 runs races between 64 writers, of small files and of files in parts, on a
// real server.
func TestS3(t *testing.T) {
	program := os.Getenv("SCALEWM_S3")
	if program == "" {
		t.Skip("make test-s3 runs it")
	}
	s3test.Start(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, s3test.Bucket), 0o777); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	server := exec.Command(program, "--port", l.Addr().String(), "posix", dir)
	server.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+s3test.Key, "ROOT_SECRET_KEY="+os.Getenv("AWS_SECRET_ACCESS_KEY"))
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	t.Setenv("AWS_ENDPOINT_URL", "http://"+l.Addr().String())
	s, err := Open(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	// The smallest part size that S3 allows.
	s.part = 5 << 20
	for i := range 20 {
		race(t, s, fmt.Sprint("small-", i), 100, 64)
	}
	race(t, s, "large", 5<<20+1, 8)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<20)
	if err := s.PutOnce(t.Context(), file(t, s, "data/big.h5", big), nil); err != nil {
		t.Fatal(err)
	}
	if back, err := pull(t, s, "data/big.h5"); err != nil || !bytes.Equal(back, big) {
		t.Errorf("it came back as %d bytes, %v", len(back), err)
	}
	if all, err := s.List(t.Context(), ""); err != nil || len(all) != 22 {
		t.Errorf("%d files are listed, want 22: %v", len(all), err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another one")
	if _, err := Open(t.Context(), address); err == nil || !strings.Contains(err.Error(), "hint: the server does not know these credentials") {
		t.Errorf("with other credentials: %v", err)
	}
}
