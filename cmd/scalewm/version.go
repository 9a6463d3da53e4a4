package main

import "runtime/debug"

// revision is the output of `git describe`, which the Makefile sets with -ldflags -X.
var revision string

// version identifies the source that this binary was built from. It is printed, and
// recorded in the run files next to cells; no comparison depends on it.
func version() string {
	if revision != "" {
		return revision
	}
	// Built without the Makefile: the go tool records the commit of a checkout, or the
	// module's version for `go install`.
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(7, len(s.Value))]
		}
	}
	return info.Main.Version
}
