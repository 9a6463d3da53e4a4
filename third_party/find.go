// Package thirdparty finds the files that the set-up script fetched: libmujoco, and the model files of
// Cube. It only returns paths to try; the caller opens them.
package thirdparty

import (
	"os"
	"path/filepath"
)

// Candidates returns, best first, the paths at which the file or folder rel of the fetched part name
// may be. If variable is set, they are variable itself and rel in it, and nothing else. Otherwise
// they are rel next to the executable, and rel in third_party/fetched/NAME of a checkout. Empty
// arguments are skipped.
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

// Home replaces the folder of the executable if this code is a library in another program, such as
// Python. It is "" in our own programs.
var Home string

// Places returns the Candidates of this process. variable is the name of an environment variable. The
// checkout is the one that contains the executable, and then the one that contains the working
// directory.
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

// checkout returns the folder at or above dir that contains our manifest, or "".
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
