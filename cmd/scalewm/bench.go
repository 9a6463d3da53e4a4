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
	register(verb{name: "bench", summary: "measure this machine's rates, beside its peak and the original Python programs",
		example: "scalewm bench --what train,plan --json\nscalewm bench --peer third_party/fetched/peers/bin/python", run: runBench})
}

func runBench(ctx context.Context, c *command, args []string) error {
	b := &bench.Bench{Version: version(), Timed: openTimed,
		Note: func(format string, args ...any) { fmt.Fprintf(c.stderr, "bench: "+format+"\n", args...) }}
	what := c.String("what", "env,load,train,plan", "`parts` to measure; kernels (each by itself), latents and wide (analyses of 192 and of 98,304 numbers), too")
	preset := c.presetFlags("", ", for another geometry than the one of 10.77 M parameters")
	c.StringVar(&b.Peer, "peer", "", "a Python `interpreter` with torch and stable-worldmodel, which takes turns with this program")
	where := c.OneOf("device", "`where` to train and plan: auto, cpu or cuda", "auto", "cpu", "cuda")
	c.StringVar(&b.Data, "data", "", "the data `file` that load reads; without it a few episodes of Two-Room are collected")
	rounds := c.Count("rounds", 5, "`number` of measurements, whose median counts")
	side := c.Count("side", 0, "also time plans of so many `episodes` side by side; 0 does not")
	asJSON := c.Bool("json", false, "print one JSON object")
	if _, err := c.parse(args, 0, 0); err != nil {
		return err
	}
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
			if err := c.meaningless("without --what "+strings.Join(of, " or "), flag); err != nil {
				return err
			}
		}
	}
	if b.Rounds, b.Side, b.Device = *rounds, *side, *where; b.Rounds < 1 {
		return usagef("bench: --rounds %d: at least 1", b.Rounds)
	}
	var err error
	if b.Preset, b.Geometry, err = bench.Preset(*preset.name, *preset.changes...); err != nil {
		return err
	}
	b.Open = func(p device.Precision) (device.Device, error) {
		precision := string(p)
		return deviceFlags{name: &b.Device, precision: &precision, stderr: io.Discard}.open(false)
	}
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
