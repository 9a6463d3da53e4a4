// Package thirdparty finds what the set-up script fetched. It knows folders only, not
// what is in them.
package thirdparty

import (
	"os"
	"path/filepath"
)

// Candidates lists, best first, where the file or folder rel of the fetched part name
// may be: what variable says and nothing else (itself, or rel in it), or rel beside
// the executable and in third_party/fetched/NAME of a checkout. Empty arguments are
// left out.
func Candidates(variable, exeDir, checkout, name, rel string) []string {
	if variable != "" {
		return []string{variable, filepath.Join(variable, rel)}
	}
	var out []string
	if exeDir != "" {
		out = append(out, filepath.Join(exeDir, rel))
	}
	if checkout != "" {
		out = append(out, filepath.Join(checkout, "third_party/fetched", name, rel))
	}
	return out
}

// Home is the folder that stands for the executable's where we are a library in
// somebody else's program; "" in programs of ours.
var Home string

// Places are the Candidates of this process: variable is what the environment says,
// the checkout the one that holds the executable, then the one that holds the working
// folder.
func Places(variable, name, rel string) []string {
	exeDir := Home
	if exeDir == "" {
		exe, _ := os.Executable()
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		exeDir = filepath.Dir(exe)
	}
	wd, _ := os.Getwd()
	paths := Candidates(variable, exeDir, checkout(exeDir), name, rel)
	if variable == "" {
		paths = append(paths, Candidates("", "", checkout(wd), name, rel)...)
	}
	return paths
}

// checkout is the folder at or above dir that holds our manifest, or "".
func checkout(dir string) string {
	for dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "third_party/manifest.toml")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return ""
}
