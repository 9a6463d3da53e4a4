package main

import (
	"fmt"
	"runtime/debug"
)

// The Makefile sets both: the release, which the Python wheel has too, and the revision,
// `git describe` of the checkout.
var release, revision = "dev", ""

// fullVersion is what `scalewm version` prints, as in "0.1.0 (611fac5)".
func fullVersion() string { return fmt.Sprintf("%s (%s)", release, version()) }

// version is the revision of the source that this binary was built from. Run files record it
// next to results; no comparison reads it.
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
