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
	// ErrDiverged is matched by a PhysicsError about a NaN or huge position, velocity or
	// acceleration.
	ErrDiverged = errors.New("mujoco: the simulation diverged")
	// ErrUnusable is returned by calls on Data whose last call was aborted by a fatal error.
	ErrUnusable = errors.New("mujoco: an earlier fatal error left this data in an inconsistent state (hint: call Reset)")
	// ErrClosed is returned by calls on a closed Model or Data.
	ErrClosed = errors.New("mujoco: used after Close")
)

// CompileError reports that MuJoCo rejected a model.
type CompileError struct {
	Text string // MuJoCo's message
	Line int    // line of the XML, 0 if MuJoCo reports none
}

func (e *CompileError) Error() string {
	return "mujoco: compiling XML text: " + e.Text
}

var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// compileError returns a CompileError. The line number is only in MuJoCo's message.
func compileError(text string) error {
	e := &CompileError{Text: oneLine(text)}
	if m := lineNumber.FindStringSubmatch(e.Text); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
	}
	return e
}

var newlines = regexp.MustCompile(`\s*\n\s*`)

// oneLine joins the lines of a message with semicolons.
func oneLine(s string) string {
	return newlines.ReplaceAllString(strings.TrimSpace(s), "; ")
}

// FatalError is a MuJoCo error that would have terminated the process.
type FatalError struct {
	Op   string // the operation
	Text string // MuJoCo's message
}

func (e *FatalError) Error() string {
	return fmt.Sprintf("mujoco: %s: %s (hint: Reset the data before the next call)", e.Op, e.Text)
}

// Warning is a kind of warning from the physics engine, with MuJoCo's numbering
// (mjtWarning).
type Warning int

// The warnings.
const (
	WarnInertia        Warning = iota // (near) singular inertia matrix
	WarnContactFull                   // no room for more contacts
	WarnConstraintFull                // no room for more constraints
	WarnBadQPos                       // NaN or huge in qpos
	WarnBadQVel                       // NaN or huge in qvel
	WarnBadQAcc                       // NaN or huge in qacc
	WarnBadCtrl                       // NaN or huge in ctrl; MuJoCo uses 0 instead
)

// PhysicsError reports that a step raised a warning. If qpos, qvel or qacc is bad, it
// matches ErrDiverged: MuJoCo has reset the data to the initial state (unless the model
// disables that), and the remaining sub-steps were skipped. After any other warning
// the simulation continues, and all sub-steps were done.
type PhysicsError struct {
	Op      string
	Warning Warning
	Index   int     // degree of freedom, control or other index that MuJoCo reports
	Step    int     // sub-step of the call, from 0
	Time    float64 // simulated time before that sub-step, in seconds
	Text    string  // MuJoCo's message
}

func (e *PhysicsError) Error() string {
	return fmt.Sprintf("mujoco: %s, sub-step %d at time %g: %s", e.Op, e.Step, e.Time, e.Text)
}

// Is makes errors.Is(err, ErrDiverged) true if the state has a NaN or huge value.
func (e *PhysicsError) Is(target error) bool {
	return target == ErrDiverged && e.Warning >= WarnBadQPos && e.Warning <= WarnBadQAcc
}

// outcome converts the code of a call on data to an error. It is separate from failure
// so that the successful path is inlined and does not allocate.
func outcome(op string, c *mjc.CData, code mjc.Code) error {
	if code == mjc.OK {
		return nil
	}
	return failure(op, c, code)
}

// failure returns the error for a code other than OK.
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
