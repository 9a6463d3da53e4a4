package main

import "runtime/debug"

// revision is set by the Makefile to `git describe` of the checkout.
var revision string

// version says which source this binary was built from, for doctor and the
// run files beside results; no comparison reads it.
func version() string {
	if revision != "" {
		return revision
	}
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
