// Package thirdparty finds the files that setup.sh downloads into third_party/fetched, such
// as libmujoco and the model files of tasks. It only composes paths; the packages that use
// the files open them.
//
// A program may run in a checkout, or be installed with these files next to the executable,
// or as a library of a Python program. Places returns the candidate paths for all of these.
package thirdparty

import (
	"os"
	"path/filepath"
)

// Candidates returns the paths at which the file or folder rel of the download name may
// be, the most preferred first. If variable, the value of an environment variable, is
// set, the user has chosen: only it and rel below it are returned. Otherwise these are
// rel next to the executable, and rel in third_party/fetched/NAME of a checkout. Empty
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

// Home replaces the folder of the executable if this program is a library in another
// process, whose executable is somewhere else. It is "" otherwise. It must be set
// before Places is called.
var Home string

// Places returns the Candidates of this process. variable is the value of the
// environment variable. The checkout that contains the executable is preferred to the
// one that contains the working folder, so that a program uses the files it was built
// with.
func Places(variable, name, rel string) []string {
	exeDir := Home
	if exeDir == "" {
		// Resolve links: a link to the program may be in a folder such as ~/bin.
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

// Hint returns what helps if no place has what is needed, a FILE or FOLDER (kind). variable
// is the name of the environment variable.
func Hint(variable, kind string) string {
	if os.Getenv(variable) != "" {
		return "correct or unset " + variable
	}
	return "make setup in a checkout, or " + variable + "=" + kind
}

// checkout returns the closest folder at or above dir that has
// third_party/manifest.toml, or "".
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
