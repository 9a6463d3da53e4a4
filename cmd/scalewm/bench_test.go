package main

import (
	"cmp"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"scalewm/eval/bench"
)

func TestBench(t *testing.T) {
	tiny := []string{"bench", "--preset", "testdata/tiny.toml", "--rounds", "1", "--what", "train"}
	out, errs, code := session(append(tiny[:len(tiny)-1:len(tiny)-1], "train,plan,kernels", "--device", "cpu", "--json")...)
	var r bench.Report
	d := json.NewDecoder(strings.NewReader(out))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); code != exitDone || err != nil || r.Train.Params != 31790 || r.Load != nil || r.Machine.Version != version() {
		t.Errorf("exit %d: %s%s, %v", code, out, errs, err)
	}
	var gflop, ms float64
	for _, k := range r.Kernels.Plan {
		gflop, ms = gflop+k.GFLOP, ms+k.MS
		if k.FloorMS <= 0 && k.GB > 0 {
			t.Errorf("%+v has no floor", k)
		}
	}
	// The FLOP of a plan also follow from the geometry (lewm.Config.PlanFLOP).
	if whole := r.Plan.GFLOPS * min(r.Plan.FP32MS, cmp.Or(r.Plan.BF16MS, math.Inf(1))) / 1000; math.Abs(gflop/whole-1) > 0.02 || ms <= 0 || len(r.Kernels.Train) == 0 {
		t.Errorf("kernels of a plan: %v GFLOP in %v ms, the plan has %v", gflop, ms, whole)
	}
	out, errs, code = session(tiny...)
	if code != exitDone || !strings.Contains(out, "training step: 16 clips") || strings.Contains(out, "peer") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"what":   {[]string{"--what", "train,speed"}, exitUsage, "env, load, train, plan"},
		"rounds": {[]string{"--rounds", "0"}, exitUsage, "--rounds 0"},
		"preset": {[]string{"--preset", "huge"}, exitUsage, "unknown preset"},
		"device": {append(tiny[1:], "--device", "abacus"), exitUsage, "abacus"},
		"data":   {[]string{"--what", "load", "--data", "/nowhere.h5"}, exitFailed, "(hint: "},
	} {
		_, errs, code := session(append([]string{"bench"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit %d, %q, want %d and %q", name, code, errs, c.code, c.want)
		}
	}
}
