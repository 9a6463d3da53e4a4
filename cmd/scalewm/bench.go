package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"scalewm/eval/bench"
	"scalewm/model/device"
)

func init() {
	register(verb{name: "bench", summary: "measure this machine's speed against its peak and the reference Python programs",
		example: "scalewm bench --what train,plan --json\nscalewm bench --peer third_party/fetched/peers/bin/python", run: runBench})
}

// runBench measures the speed of this machine. All measurements are in package bench;
// this function parses the flags and provides the devices.
//
// Stdout has a table of rates, or one JSON object. Notes go to stderr while it runs.
// Nothing is kept, so that an interrupted bench starts over.
func runBench(ctx context.Context, c *command, args []string) error {
	b := &bench.Bench{Version: version(), Timed: openTimed,
		Note: func(format string, args ...any) { fmt.Fprintf(c.stderr, "bench: "+format+"\n", args...) }}
	what := c.String("what", "env,load,train,plan", "comma-separated `parts` to measure; also: kernels (each one alone), latents and wide (analyses of latents with 192 and 98,304 numbers)")
	preset := c.presetFlags("", " (default: the model with 10.77 M parameters)")
	c.StringVar(&b.Peer, "peer", "", "Python `interpreter` with torch and stable-worldmodel to compare with, in alternating runs")
	where := c.OneOf("device", "`device` to train and plan on: auto, cpu or cuda", "auto", "cpu", "cuda")
	c.StringVar(&b.Data, "data", "", "data set `file` for the part load (default: collect a few episodes of Two-Room)")
	rounds := c.Count("rounds", 5, "report the median of `n` measurements")
	side := c.Count("side", 0, "also time plans of `n` episodes in one batch; 0 means no")
	asJSON := c.Bool("json", false, "print the result as one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
	// The parts to measure, and the flags that only some of them use.
	var parts []string
	for name := range strings.SplitSeq(*what, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(bench.Parts(), name) {
			return usagef("bench: --what %s: choose among %s", *what, strings.Join(bench.Parts(), ", "))
		}
		parts = append(parts, name)
	}
	for flag, of := range map[string][]string{"data": {"load"}, "side": {"plan", "kernels"}} {
		if !slices.ContainsFunc(of, func(part string) bool { return slices.Contains(parts, part) }) {
			if err := c.noEffect("without --what "+strings.Join(of, " or "), flag); err != nil {
				return err
			}
		}
	}
	if b.Rounds, b.Side, b.Device = *rounds, *side, *where; b.Rounds < 1 {
		return usagef("bench: --rounds %d: at least 1", b.Rounds)
	}
	var err error
	if b.Preset, b.Geometry, err = bench.Preset(*preset.name, preset.changes()...); err != nil {
		return err
	}
	// bench opens devices in several precisions. It reports itself what auto chose.
	b.Open = func(p device.Precision) (device.Device, error) {
		precision := string(p)
		return deviceFlags{name: &b.Device, precision: &precision, stderr: io.Discard}.open(false)
	}
	// The peak rates of the GPU, to compare with. Package bench cannot measure them: it
	// does not depend on CUDA.
	if b.Device == "cuda" || b.Device == "auto" && gpuBuild {
		b.GPU = measureGPU
	}
	r, err := b.Run(ctx, parts)
	if err != nil {
		return err
	}
	if *asJSON {
		return c.printJSON(r)
	}
	return r.Print(c.stdout)
}
