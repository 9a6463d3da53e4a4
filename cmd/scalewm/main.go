// Command scalewm generates data, trains latent world models, plans with them
// and compares them episode by episode; `scalewm help` lists its verbs.
package main

// The C file start.c is a part of this package.

import "C"

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"scalewm/dataset/collect"
	"scalewm/dataset/safefile"
	"scalewm/eval/pipeline"
)

// Exit codes; scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitIncomplete  = 3
	exitTimeUp      = 75 // EX_TEMPFAIL: stopped in order by SIGUSR1, run it again
	exitInterrupted = 130
)

// Words in place of a verb.
var (
	asksHelp    = []string{"help", "--help", "-help", "-h"}
	asksVersion = []string{"version", "--version", "-version"}
)

// errTimeUp ends a run that a batch system's SIGUSR1 told that its time is nearly up.
var errTimeUp = errors.New("time is nearly up")

// errFailedCells ends a run that finished although some cells failed.
var errFailedCells = errors.New("some cells failed")

// errUnread ends one that finished without files that are there.
var errUnread = errors.New("some files could not be read and are left out")

// usagef is a mistake in the command line.
func usagef(format string, args ...any) error { return pipeline.Requestf(format, args...) }

// grace is how long a verb may take to end in order once it is told to. What it has
// not written by then the next run makes again, as after a kill.
const grace = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	if os.Getenv(collect.ServeVariable) != "" {
		signal.Ignore(os.Interrupt) // the process that is served gets it too, and ends this one
		os.Exit(exitCode(collect.Serve(ctx, os.Stdin, os.Stdout), os.Stderr))
	}
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the program at once, see start.c
		time.Sleep(grace)
		if release := safefile.HoldRenames(); complete() {
			release() // the verb has done its work and ends the program
			return
		}
		os.Exit(exitCode(context.Canceled, os.Stderr))
	})
	ctx, timeUp := context.WithCancelCause(ctx) // which has no bound: the batch system does
	warnings := make(chan os.Signal, 1)
	signal.Notify(warnings, syscall.SIGUSR1)
	go func() { <-warnings; timeUp(errTimeUp) }()
	os.Exit(exitCode(run(ctx, os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

// result is the path of the only file that the running verb makes, where nothing was before.
var result atomic.Pointer[string]

// complete says that the verb's file has its final name: an interrupt comes too late, and the same
// command would find the file in its way.
func complete() bool {
	path := result.Load()
	if path == nil {
		return false
	}
	_, err := os.Lstat(*path)
	return err == nil
}

// run executes one command line; tests call it as the shell does.
func run(ctx context.Context, args []string, to, stderr io.Writer) (err error) {
	result.Store(nil)
	stdout := &printed{Writer: to}
	stderr = &printed{Writer: stderr}
	defer func() {
		if err == nil && stdout.err != nil {
			err = fmt.Errorf("printing: %w (hint: is the disk full that stdout goes to?)", stdout.err)
		}
	}()
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("a bug: %v (hint: please report it with the command line and this)\n%s", bug, debug.Stack())
		}
	}()
	if len(args) == 0 {
		printVerbs(stdout)
		return usagef("no verb given")
	}
	if slices.Contains(asksHelp, args[0]) {
		topic := slices.DeleteFunc(slices.Clone(args[1:]), func(word string) bool { return slices.Contains(asksHelp, word) })
		if len(topic) > 0 {
			return run(ctx, append(topic, "--help"), stdout, stderr)
		}
		printVerbs(stdout)
		return nil
	}
	if slices.Contains(asksVersion, args[0]) {
		fmt.Fprintln(stdout, "scalewm", fullVersion())
		return nil
	}
	v, ok := lookupVerb(args[0])
	if !ok {
		return usagef("unknown verb %q%s; `scalewm help` lists the verbs", args[0], pipeline.Nearest(args[0], verbNames()))
	}
	err = v.run(ctx, newCommand(v, stdout, stderr), args[1:])
	switch {
	case errors.Is(err, errHelp):
		return nil
	case ctx.Err() != nil && !complete(): // whatever the verb made of it
		if errors.Is(err, errStalled) {
			return err
		}
		return context.Cause(ctx)
	}
	return err
}

// printed is a stdout or stderr of text. It keeps its first error, so that no verb need look at what every line gives,
// and shows what would steer a terminal.
type printed struct {
	io.Writer
	err error
}

func (p *printed) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.Writer, safefile.Visible(string(b)))
	p.err = cmp.Or(p.err, err)
	return len(b), err
}

// exitCode prints err as one line and maps it to the program's exit code.
func exitCode(err error, stderr io.Writer) int {
	stderr = &printed{Writer: stderr}
	var usage *pipeline.RequestError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errTimeUp):
		fmt.Fprintln(stderr, "scalewm: stopped, since the time is nearly up; run the same command again, which goes on where it can")
		return exitTimeUp
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "scalewm: interrupted; run the same command again, which goes on where it can")
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintln(stderr, "scalewm:", usage)
		return exitUsage
	case errors.Is(err, errFailedCells), errors.Is(err, errUnread):
		fmt.Fprintln(stderr, "scalewm:", err)
		return exitIncomplete
	}
	fmt.Fprintln(stderr, "scalewm:", err)
	return exitFailed
}
