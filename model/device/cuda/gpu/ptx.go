//go:build gpu

package gpu

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// The kernels, as the program compile left them (make cuda). Not committed.
//
//go:embed ptx/*.ptx
var compiled embed.FS

// ptx are the files for an ISA, by name.
func ptx(isa string) (map[string]string, error) {
	names, err := fs.Glob(compiled, "ptx/*."+isa+".ptx")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("this program holds no kernels for %s (hint: make cuda)", isa)
	}
	files := map[string]string{}
	for _, name := range names {
		text, err := compiled.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files[strings.TrimPrefix(name, "ptx/")] = string(text)
	}
	return files, nil
}
