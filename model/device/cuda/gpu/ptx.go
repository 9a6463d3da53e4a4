//go:build gpu

package gpu

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

// compiled is the kernels' PTX, which command compile generates (make cuda). It is not
// committed.
//
//go:embed ptx/*.ptx
var compiled embed.FS

// ptx returns the PTX files for an ISA, by name. The driver compiles PTX for the GPU at
// hand, so that sm_80 also serves later GPUs; sm_90a runs on Hopper only.
func ptx(isa string) (map[string]string, error) {
	names, err := fs.Glob(compiled, "ptx/*."+isa+".ptx")
	if err != nil || len(names) == 0 {
		return nil, fmt.Errorf("this program contains no kernels for %s (hint: make cuda)", isa)
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
