package main

import (
	"os/exec"
	"strings"
	"testing"
)

// Events that `go test -json` of Go 1.26 writes for a package with one passing, one skipped,
// one helper and one failing test, one that does not build, and one that has no tests.
const testEvents = `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestB","Output":"=== RUN   TestB\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    a_test.go:7: peers: no \"interpreter\" \u003c\\n\u003e\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestH","Output":"    a_test.go:8: helper process of TestK\n"}
{"Action":"skip","Package":"p","Test":"TestH","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestC","Output":"=== RUN   TestC\n"}
{"Action":"output","Package":"p","Test":"TestC","Output":"    a_test.go:9: 1 is not 2\n","OutputType":"error"}
{"Action":"fail","Package":"p","Test":"TestC","Elapsed":0}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.002s\n"}
{"Action":"fail","Package":"p","Elapsed":0.002}
{"ImportPath":"q","Action":"build-output","Output":"q/q.go:1: syntax error\n"}
not an event
{"Action":"output","Package":"s","Output":"?   \ts\t[no test files]\n"}
{"Action":"skip","Package":"s"}
`

const passEvents = `{"Action":"output","Package":"r","Output":"PASS\n"}
{"Action":"output","Package":"r","Output":"ok  \tr\t0.001s\n"}
{"Action":"pass","Package":"r","Test":"TestA"}
{"Action":"pass","Package":"r"}
`

// .ci/testsum.awk prints the summary at the end of make test.
func TestSummaryOfTests(t *testing.T) {
	for name, c := range map[string]struct {
		events, noskip, want string
		failed               bool
	}{
		"all kinds": {testEvents, "0", "=== RUN   TestC\n    a_test.go:9: 1 is not 2\nFAIL\tp\t0.002s\nq/q.go:1: syntax error\nnot an event\n" +
			"?   \ts\t[no test files]\n\nskipped tests: 1\n  peers: no \"interpreter\" <\\n>\n    p TestB\n", true},
		"all passed":           {passEvents, "1", "ok  \tr\t0.001s\n\nno test was skipped\n", false},
		"a skip is no failure": {`{"Action":"skip","Package":"r","Test":"TestB"}`, "0", "\nskipped tests: 1\n  no reason given\n    r TestB\n", false},
		"unless -noskip":       {passEvents + `{"Action":"skip","Package":"r","Test":"TestB"}`, "1", "ok  \tr\t0.001s\n\nskipped tests: 1\n  no reason given\n    r TestB\n", true},
		"nothing ran":          {`{"Action":"pass","Package":"r"}`, "1", "\nno test was skipped\nno test of r was run\n", true},
		"a binary died": {`{"Action":"output","Package":"p","Test":"TestA","Output":"fatal error: out of memory\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}`, "0", "FAIL\tp\t0.1s\nfatal error: out of memory\n\nno test was skipped\n", true},
	} {
		cmd := exec.Command("awk", "-v", "noskip="+c.noskip, "-f", "../../.ci/testsum.awk")
		cmd.Stdin = strings.NewReader(c.events)
		out, err := cmd.CombinedOutput()
		if string(out) != c.want || (err != nil) != c.failed {
			t.Errorf("%s: %v, printed\n%s\nwant\n%s", name, err, out, c.want)
		}
	}
}
