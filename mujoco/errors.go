package mujoco

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"scalewm/mujoco/internal/mjc"
)

var (
	// ErrDiverged is what a PhysicsError of a bad position, velocity or acceleration is.
	ErrDiverged = errors.New("mujoco: the simulation diverged")
	// ErrUnusable is returned for Data that a fatal error left half-way.
	ErrUnusable = errors.New("mujoco: an earlier fatal error left this data half-way (hint: Reset it)")
	// ErrClosed is returned by calls on a closed Model or Data.
	ErrClosed = errors.New("mujoco: used after Close")
)

// CompileError is MuJoCo's refusal of a model.
type CompileError struct {
	Text string // MuJoCo's message
	Line int    // in the XML, 0 where MuJoCo names none
}

func (e *CompileError) Error() string {
	return "mujoco: compiling XML text: " + e.Text
}

var lineNumber = regexp.MustCompile(`\bline (\d+)`)

func compileError(text string) error {
	e := &CompileError{Text: oneLine(text)}
	if m := lineNumber.FindStringSubmatch(e.Text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
	}
	return e
}

var newlines = regexp.MustCompile(`\s*\n\s*`)

// oneLine joins the lines of a message.
func oneLine(s string) string {
	return newlines.ReplaceAllString(strings.TrimSpace(s), "; ")
}

// FatalError is an error of MuJoCo that would have ended the process.
type FatalError struct {
	Op   string // what was being done
	Text string // MuJoCo's message
}

func (e *FatalError) Error() string {
	return fmt.Sprintf("mujoco: %s: %s (hint: Reset the data before the next call)", e.Op, e.Text)
}

// Warning is a kind of warning of the physics.
type Warning int

// The kinds.
const (
	WarnInertia        Warning = iota // (near) singular inertia matrix
	WarnContactFull                   // no room for more contacts
	WarnConstraintFull                // no room for more constraints
	WarnBadQPos                       // NaN or huge in qpos
	WarnBadQVel                       // NaN or huge in qvel
	WarnBadQAcc                       // NaN or huge in qacc
	WarnBadCtrl                       // NaN or huge in ctrl, taken as 0
)

// PhysicsError says that a step raised a warning. For a bad qpos, qvel or qacc it
// is ErrDiverged: MuJoCo has put the data back into its initial state (unless the
// model disables that), and later sub-steps were not done. Any other warning lets
// the simulation go on, and all sub-steps were done.
type PhysicsError struct {
	Op      string
	Warning Warning
	Index   int     // degree of freedom, control or other number that MuJoCo gives with it
	Step    int     // sub-step of the call, from 0
	Time    float64 // simulated time before that sub-step, in seconds
	Text    string  // MuJoCo's sentence
}

func (e *PhysicsError) Error() string {
	return fmt.Sprintf("mujoco: %s, sub-step %d at time %g: %s", e.Op, e.Step, e.Time, e.Text)
}

// Is makes errors.Is(err, ErrDiverged) true for a state that went bad.
func (e *PhysicsError) Is(target error) bool {
	return target == ErrDiverged && e.Warning >= WarnBadQPos && e.Warning <= WarnBadQAcc
}

// outcome is the error of a call on data, nil for most.
func outcome(op string, c *mjc.CData, code mjc.Code) error {
	if code == mjc.OK {
		return nil
	}
	return failure(op, c, code)
}

func failure(op string, c *mjc.CData, code mjc.Code) error {
	switch code {
	case mjc.Unusable:
		return ErrUnusable
	case mjc.Fatal:
		return &FatalError{op, oneLine(mjc.Last(c).Text)}
	}
	last := mjc.Last(c)
	return &PhysicsError{op, Warning(last.Warning), last.Info, last.Step, last.When,
		oneLine(mjc.WarningText(last.Warning, last.Info))}
}
