package envtest

import (
	"io"
	"os/exec"
	"path/filepath"
	"testing"
)

// Oracle is a C program around the library of a reference implementation, for tests behind a
// build tag. It runs as a process next to the test and communicates through its standard
// input and output.
type Oracle struct {
	Build   []string // arguments of cc, without the output
	Args    []string // arguments of the program
	Package string   // Debian package of the library, for the hint
}

// Start builds the program and runs it until the end of the test.
func (o Oracle) Start(t *testing.T) (in io.Writer, out io.Reader) {
	t.Helper()
	// The program is compiled at run time, since its library is not needed to build the tests.
	bin := filepath.Join(t.TempDir(), "oracle")
	if said, err := exec.Command("cc", append([]string{"-O2", "-o", bin}, o.Build...)...).CombinedOutput(); err != nil {
		t.Fatalf("building the oracle: %v (hint: apt-get install %s)\n%s", err, o.Package, said)
	}
	cmd := exec.Command(bin, o.Args...)
	// The protocol is line by line: the test writes a request and reads the answer.
	stdin, err := cmd.StdinPipe()
	must(t, err)
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() {
		// End of input ends the program.
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	return stdin, stdout
}
