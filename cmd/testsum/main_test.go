package main

import (
	"strings"
	"testing"
)

// The events are those `go test -json` of Go 1.26 writes for a package with one
// passing, one skipped, one helper and one failing test and a package that does not build.
const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: chatter\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:7: peers: no interpreter\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestH","Output":"    a_test.go:8: helper process of TestK\n"}
{"Action":"skip","Package":"p","Test":"TestH","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:9: 1 is not 2\n"}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.002s\n"}
{"Action":"fail","Package":"p","Elapsed":0.002}
{"ImportPath":"q","Action":"build-output","Output":"q/q.go:1: syntax error\n"}
not an event
{"Action":"output","Package":"r","Output":"PASS\n"}
{"Action":"output","Package":"r","Output":"ok  \tr\t0.001s\n"}
{"Action":"pass","Package":"r"}
{"Action":"output","Package":"s","Output":"?   \ts\t[no test files]\n"}
{"Action":"skip","Package":"s"}
`

func TestSummary(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	s.printSkips()
	want := `=== RUN   TestC
    a_test.go:9: 1 is not 2
FAIL
FAIL	p	0.002s
q/q.go:1: syntax error
not an event
ok  	r	0.001s
?   	s	[no test files]

skipped tests: 1
  peers: no interpreter
    p TestB
`
	if out.String() != want {
		t.Errorf("printed\n%s\nwant\n%s", out.String(), want)
	}
	if !s.failed {
		t.Error("a failed test did not fail the summary")
	}
}

// A binary that dies leaves its running test without a verdict.
func TestDeadBinary(t *testing.T) {
	const events = `{"Action":"output","Package":"p","Test":"TestA","Output":"fatal error: out of memory\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if want := "FAIL\tp\t0.1s\nfatal error: out of memory\n"; out.String() != want || !s.failed {
		t.Errorf("printed %q, failed %v, want %q", out.String(), s.failed, want)
	}
}

func TestNoSkips(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(`{"Action":"pass","Package":"p"}`)); err != nil {
		t.Fatal(err)
	}
	s.printSkips()
	if got := out.String(); got != "\nno test was skipped\n" || s.failed {
		t.Errorf("printed %q, failed %v", got, s.failed)
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct{ output, want string }{
		{"=== RUN   T\n    x_test.go:12: browser: none found\n--- SKIP: T (0.00s)\n", "browser: none found"},
		{"=== RUN   T\n--- SKIP: T (0.00s)\n", "no reason given"},
		{"said without a place\n", "said without a place"},
	} {
		if got := reason(c.output); got != c.want {
			t.Errorf("reason(%q) = %q, want %q", c.output, got, c.want)
		}
	}
}

// With -noskip a run fails for a skipped test and for a package without a test.
func TestNoSkipRefuses(t *testing.T) {
	const passed = `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p"}`
	for events, want := range map[string]struct {
		failed bool
		said   string
	}{
		passed: {false, ""},
		passed + `
{"Action":"skip","Package":"p","Test":"TestB"}`: {true, ""},
		passed + `
{"Action":"pass","Package":"q"}`: {true, "no test of q was run\n"},
	} {
		var out strings.Builder
		s := newSummary(&out)
		if err := s.read(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		if s.refuseSkips(); s.failed != want.failed || out.String() != want.said {
			t.Errorf("%s: failed %v, printed %q; want %v, %q", events, s.failed, out.String(), want.failed, want.said)
		}
	}
}
