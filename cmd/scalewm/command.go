package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// verb is one word of the command line. Each lives in its own file, which adds
// it to the table with register.
type verb struct {
	name    string
	args    string // positional arguments as the help shows them: "TASK", "F.h5"
	summary string // one line
	example string // command lines that work, one a line
	run     func(ctx context.Context, c *command, args []string) error
}

var verbs = map[string]verb{}

func register(v verb) { verbs[v.name] = v }

func lookupVerb(name string) (verb, bool) { v, ok := verbs[name]; return v, ok }

func verbNames() []string {
	var ns []string
	for n := range verbs {
		ns = append(ns, n)
	}
	sort.Strings(ns)
	return ns
}

func printVerbs(w io.Writer) {
	fmt.Fprint(w, "scalewm: data, training, planning and paired evaluation of latent world models\n\nUsage: scalewm VERB [flags] [arguments]\n\n")
	for _, n := range verbNames() {
		fmt.Fprintf(w, "  %-10s %s\n", n, verbs[n].summary)
	}
	fmt.Fprint(w, "\n`scalewm VERB --help` shows a verb's flags and an example, `scalewm --version` what this binary was built from.\n")
}

// errHelp ends a verb that only printed its help.
var errHelp = errors.New("help shown")

// command is one invocation of a verb: its flags and where it talks.
type command struct {
	*flag.FlagSet
	verb           verb
	stdout, stderr io.Writer
}

func newCommand(v verb, stdout, stderr io.Writer) *command {
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return &command{FlagSet: fs, verb: v, stdout: stdout, stderr: stderr}
}

// parse reads flags wherever they stand and returns the positional arguments;
// there must be between min and max of them (max < 0: any number). "--" ends the flags.
func (c *command) parse(args []string, min, max int) ([]string, error) {
	var pos []string
	for {
		if err := c.FlagSet.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				c.printHelp(c.stdout)
				return nil, errHelp
			}
			return nil, usagef("%s: %v (`scalewm %s --help` lists the flags)", c.verb.name, dashes(err), c.verb.name)
		}
		rest := c.Args()
		consumed := len(args) - len(rest)
		if consumed > 0 && args[consumed-1] == "--" {
			pos = append(pos, rest...)
			break
		}
		if len(rest) == 0 {
			break
		}
		pos = append(pos, rest[0])
		args = rest[1:]
	}
	if empty := c.empty(); empty != "" {
		return nil, usagef("%s: --%s is empty (`scalewm %s --help` lists the flags; leave it out for its default)", c.verb.name, empty, c.verb.name)
	}
	if slices.Contains(pos, "") {
		return nil, usagef("%s: an argument is empty (`scalewm %s --help` shows an example)", c.verb.name, c.verb.name)
	}
	if len(pos) < min {
		return nil, usagef("%s needs %s (`scalewm %s --help` shows an example)", c.verb.name, c.verb.args, c.verb.name)
	}
	if max >= 0 && len(pos) > max {
		return nil, usagef("%s: unexpected argument %q", c.verb.name, pos[max])
	}
	return pos, nil
}

// empty is the name of a flag that was given without a value, as an unset variable
// of a script gives it, or "".
func (c *command) empty() (name string) {
	c.Visit(func(f *flag.Flag) {
		if _, list := f.Value.(switches); !list && f.Value.String() == "" {
			name = f.Name
		}
	})
	return name
}

// required refuses a command line that leaves one of these flags empty.
func (c *command) required(flags ...string) error {
	for _, name := range flags {
		if c.Lookup(name).Value.String() == "" {
			return usagef("%s needs --%s (`scalewm %s --help` shows an example)", c.verb.name, name, c.verb.name)
		}
	}
	return nil
}

// meaningless refuses the flags of this list that were given: why says where they mean nothing.
func (c *command) meaningless(why string, flags ...string) (err error) {
	c.Visit(func(f *flag.Flag) {
		if slices.Contains(flags, f.Name) {
			err = usagef("%s: --%s means nothing %s (hint: leave it out)", c.verb.name, f.Name, why)
		}
	})
	return err
}

// dashes shows flags the way they are typed, with two dashes.
func dashes(err error) string {
	s := strings.Replace(err.Error(), "for flag -", "for flag --", 1)
	if i := strings.LastIndex(s, ": -"); i >= 0 && !strings.HasPrefix(s[i+3:], "-") {
		return s[:i+2] + "-" + s[i+2:]
	}
	return s
}

func (c *command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "scalewm %s: %s\n\nUsage: scalewm %s [flags] %s\n", c.verb.name, c.verb.summary, c.verb.name, c.verb.args)
	any := false
	c.VisitAll(func(f *flag.Flag) {
		if !any {
			fmt.Fprint(w, "\nFlags:\n")
			any = true
		}
		name, use := flag.UnquoteUsage(f)
		if name != "" {
			name = " " + strings.ToUpper(name)
		}
		def := ""
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			def = fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(w, "  --%-22s %s%s\n", f.Name+name, use, def)
	})
	fmt.Fprintf(w, "\nExample:\n  %s\n", strings.ReplaceAll(c.verb.example, "\n", "\n  "))
}

// forceFlag lets a verb replace a file that it did not write.
func (c *command) forceFlag() *bool {
	return c.Bool("force", false, "replace a file that is there already, whoever wrote it")
}

// breakLockFlag lets trainings take their folders from processes that are gone.
func (c *command) breakLockFlag() *bool {
	return c.Bool("break-lock", false, "take a training's folder from the process that has it, on another machine and gone for certain")
}

// mayWrite refuses an output that is the input and, without force, one that is there.
func (c *command) mayWrite(out, input string, force bool) error {
	if sameFile(out, input) {
		return usagef("%s: --out %s is the input", c.verb.name, out)
	}
	if _, err := os.Lstat(out); err == nil && !force {
		return fmt.Errorf("%s: %s is there already (hint: choose another --out, or replace it with --force)", c.verb.name, out)
	}
	return nil
}

func sameFile(a, b string) bool {
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(sa, sb)
}

// count is a flag that cannot be negative.
type count int

func (n *count) String() string { return strconv.Itoa(int(*n)) }

func (n *count) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil {
		return errors.New("it must be a whole number")
	}
	if v < 0 {
		return errors.New("it must not be negative")
	}
	*n = count(v)
	return nil
}

// Count defines a flag for how many there shall be of something.
func (c *command) Count(name string, value int, usage string) *int {
	n := value
	c.Var((*count)(&n), name, usage)
	return &n
}

// some is a flag of which 0 says nothing: what is left out has its default.
type some struct{ count }

func (n *some) Set(text string) error {
	if err := n.count.Set(text); err != nil {
		return err
	}
	if n.count == 0 {
		return errors.New("it must be at least 1")
	}
	return nil
}

// Some defines a flag for how many there shall be of something, at least one.
func (c *command) Some(name string, value int, usage string) *int {
	n := &some{count(value)}
	c.Var(n, name, usage)
	return (*int)(&n.count)
}

// seed is a flag that a random stream begins with.
type seed int64

func (s *seed) String() string { return strconv.FormatInt(int64(*s), 10) }

func (s *seed) Set(text string) error {
	v, err := parseSeed(text)
	*s = seed(v)
	return err
}

// Seed defines a flag for a seed.
func (c *command) Seed(name string, value int64, usage string) *int64 {
	s := value
	c.Var((*seed)(&s), name, usage)
	return &s
}

func parseSeed(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("seed %q is not a whole number from 0 on", text)
	}
	return v, nil
}

// oneOf is a flag that takes one of a few words.
type oneOf struct {
	value *string
	words []string
}

func (o oneOf) String() string {
	if o.value == nil { // of package flag's own making
		return ""
	}
	return *o.value
}

func (o oneOf) Set(text string) error {
	if !slices.Contains(o.words, text) {
		return fmt.Errorf("choose among %s", strings.Join(o.words, ", "))
	}
	*o.value = text
	return nil
}

// OneOf defines a flag that takes one of these words, of which the first is its default.
func (c *command) OneOf(name, usage string, words ...string) *string {
	value := words[0]
	c.Var(oneOf{&value, words}, name, usage)
	return &value
}
