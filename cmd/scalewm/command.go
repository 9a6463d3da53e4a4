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
	"unicode/utf8"
)

// verb is one subcommand of the program. Each has its own file, whose init function
// adds it to the table with register.
type verb struct {
	name    string
	args    string // positional arguments for the help text, such as "TASK" or "F.h5"
	summary string // one line for the help text
	example string // command lines that work, separated by newlines
	// run defines flags on c, parses args with c.parse, and does the work.
	run func(ctx context.Context, c *command, args []string) error
}

// verbs is the table of subcommands by name.
var verbs = map[string]verb{}

// register adds a verb to the table.
func register(v verb) { verbs[v.name] = v }

// lookupVerb returns the verb of a name.
func lookupVerb(name string) (verb, bool) { v, ok := verbs[name]; return v, ok }

// verbNames returns the names of all verbs in alphabetical order.
func verbNames() []string {
	var ns []string
	for n := range verbs {
		ns = append(ns, n)
	}
	sort.Strings(ns)
	return ns
}

// printVerbs prints the help text of the program.
func printVerbs(w io.Writer) {
	fmt.Fprint(w, "scalewm: collect data, train latent world models, plan with them and compare them\n\nUsage: scalewm VERB [flags] [arguments]\n\n")
	for _, n := range verbNames() {
		fmt.Fprintf(w, "  %-11s %s\n", n, verbs[n].summary)
	}
	fmt.Fprint(w, "\n`scalewm VERB --help` shows the flags of a verb and an example; `scalewm --version` prints the version.\n")
}

// errHelp ends a verb that only printed its help text.
var errHelp = errors.New("help shown")

// command is one invocation of a verb: its flags and its output streams. It extends
// package flag in four ways. Flags may follow positional arguments. Values are
// checked when they are parsed, so that all mistakes are found before any work. Empty
// values and flags without an effect are errors. And the help text spells flags with
// two dashes, with the name of the value and an example.
//
// A verb defines flags with methods such as Count and OneOf or those of flag.FlagSet,
// in whatever order reads best: the help text sorts them.
type command struct {
	*flag.FlagSet
	verb           verb
	stdout, stderr io.Writer
}

// newCommand returns the invocation of a verb. Package flag prints nothing itself:
// parse returns its errors.
func newCommand(v verb, stdout, stderr io.Writer) *command {
	fs := flag.NewFlagSet(v.name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	return &command{FlagSet: fs, verb: v, stdout: stdout, stderr: stderr}
}

// parse parses flags, which may stand before, between and after positional arguments,
// and returns the latter. Their number must be between min and max; max < 0 means no
// limit. All arguments after "--" are positional. Errors are usage errors, except
// errHelp.
func (c *command) parse(args []string, min, max int) ([]string, error) {
	// Package flag stops at the first positional argument: take it off and continue.
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
	if empty := c.emptyFlag(); empty != "" {
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

// emptyFlag returns the name of a flag that was given an empty value, or "". That is
// always a mistake, typically an unset variable in a script, and must not select the
// default.
func (c *command) emptyFlag() (name string) {
	c.Visit(func(f *flag.Flag) {
		if _, list := f.Value.(switches); !list && f.Value.String() == "" {
			name = f.Name
		}
	})
	return name
}

// required returns a usage error if one of the named flags is empty.
func (c *command) required(flags ...string) error {
	for _, name := range flags {
		if c.Lookup(name).Value.String() == "" {
			return usagef("%s needs --%s (`scalewm %s --help` shows an example)", c.verb.name, name, c.verb.name)
		}
	}
	return nil
}

// noEffect returns a usage error if one of the named flags was given although it has
// no effect; why completes the sentence "--flag has no effect ...". Ignoring such a
// flag would hide a misunderstanding.
func (c *command) noEffect(why string, flags ...string) (err error) {
	c.Visit(func(f *flag.Flag) {
		if slices.Contains(flags, f.Name) {
			err = usagef("%s: --%s has no effect %s (hint: leave it out)", c.verb.name, f.Name, why)
		}
	})
	return err
}

// dashes returns the message of a package flag error with flags spelt with two
// dashes, as the help text shows them.
func dashes(err error) string {
	// The two forms of package flag: `... for flag -x: ...` and `...: -x`.
	s := strings.Replace(err.Error(), "for flag -", "for flag --", 1)
	if i := strings.LastIndex(s, ": -"); i >= 0 && !strings.HasPrefix(s[i+3:], "-") {
		return s[:i+2] + "-" + s[i+2:]
	}
	return s
}

// printHelp prints the verb's help text: usage, flags with defaults, examples.
func (c *command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "scalewm %s: %s\n\n%s\n", c.verb.name, c.verb.summary, strings.TrimSpace(fmt.Sprintf("Usage: scalewm %s [flags] %s", c.verb.name, c.verb.args)))
	any := false
	c.VisitAll(func(f *flag.Flag) {
		if !any {
			fmt.Fprint(w, "\nFlags:\n")
			any = true
		}
		name, use := flag.UnquoteUsage(f) // the word in back quotes names the value
		if name != "" {
			name = " " + strings.ToUpper(name)
		}
		// Zero values are the absence of a default.
		def := ""
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			def = fmt.Sprintf(" (default %s)", f.DefValue)
		}
		fmt.Fprintf(w, "  --%-22s %s\n", f.Name+name, wrapped(use+def))
	})
	fmt.Fprintf(w, "\nExample:\n  %s\n", strings.ReplaceAll(c.verb.example, "\n", "\n  "))
}

// wrapped breaks a flag's description into lines that end at column 80, each continuation
// indented to the column of the description.
func wrapped(text string) string {
	const indent, width = 27, 80 - 27
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch n := utf8.RuneCountInString(word); {
		case column == 0:
			column = n
		case column+1+n > width:
			out.WriteString("\n" + strings.Repeat(" ", indent))
			column = n
		default:
			out.WriteString(" ")
			column += 1 + n
		}
		out.WriteString(word)
	}
	return out.String()
}

// forceFlag defines --force, which lets a verb replace files that it did not write.
func (c *command) forceFlag() *bool {
	return c.Bool("force", false, "replace an existing file, even if scalewm did not write it")
}

// breakLockFlag defines --break-lock, which takes over locks whose owners cannot be
// checked.
func (c *command) breakLockFlag() *bool {
	return c.Bool("break-lock", false, "take over the lock of a process on another machine that you know to be dead")
}

// mayWrite returns an error if out is the input file or, without force, exists.
func (c *command) mayWrite(out, input string, force bool) error {
	if sameFile(out, input) {
		return usagef("%s: --out %s is the input", c.verb.name, out)
	}
	// Lstat: a dangling symbolic link exists too.
	if _, err := os.Lstat(out); err == nil && !force {
		return fmt.Errorf("%s: %s already exists (hint: choose another --out, or replace it with --force)", c.verb.name, out)
	}
	return nil
}

// sameFile reports whether two paths name the same existing file.
func sameFile(a, b string) bool {
	sa, errA := os.Stat(a)
	sb, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(sa, sb)
}

// count is the value of a flag that must not be negative.
type count int

// String implements flag.Value.
func (n *count) String() string { return strconv.Itoa(int(*n)) }

// Set implements flag.Value. Package flag adds the name of the flag to the error.
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

// Count defines a flag for a number of things, possibly none.
func (c *command) Count(name string, value int, usage string) *int {
	n := value
	c.Var((*count)(&n), name, usage)
	return &n
}

// positive is the value of a flag of at least 1. Its default may be 0, which then
// means that the flag was not given.
type positive struct{ count }

// Set implements flag.Value. An explicit 0 is an error, even where the default is 0.
func (n *positive) Set(text string) error {
	if err := n.count.Set(text); err != nil {
		return err
	}
	if n.count == 0 {
		return errors.New("it must be at least 1")
	}
	return nil
}

// Positive defines a flag for a number of things, at least one.
func (c *command) Positive(name string, value int, usage string) *int {
	n := &positive{count(value)}
	c.Var(n, name, usage)
	return (*int)(&n.count)
}

// seed is the value of a flag for the seed of a random stream: 0 or more, in 63 bits.
type seed int64

// String implements flag.Value.
func (s *seed) String() string { return strconv.FormatInt(int64(*s), 10) }

// Set implements flag.Value.
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

// parseSeed parses a seed.
func parseSeed(text string) (int64, error) {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 {
		return 0, fmt.Errorf("seed %q is not a non-negative integer", text)
	}
	return v, nil
}

// oneOf is the value of a flag that accepts one of a few words.
type oneOf struct {
	value *string
	words []string
}

// String implements flag.Value.
func (o oneOf) String() string {
	if o.value == nil { // package flag calls String on the zero value
		return ""
	}
	return *o.value
}

// Set implements flag.Value.
func (o oneOf) Set(text string) error {
	if !slices.Contains(o.words, text) {
		return fmt.Errorf("choose among %s", strings.Join(o.words, ", "))
	}
	*o.value = text
	return nil
}

// OneOf defines a flag that accepts one of these words; the first is its default.
func (c *command) OneOf(name, usage string, words ...string) *string {
	value := words[0]
	c.Var(oneOf{&value, words}, name, usage)
	return &value
}
